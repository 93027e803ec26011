"""What a driver sees of each operation, cold and warm, at every level of Python and of the runtime."""

import pytest
from operations import EXPECTED, values  # noqa: F401

import fusegate
