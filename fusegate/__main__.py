"""`python -m fusegate` is the `fusegate` command."""

from __future__ import annotations

from fusegate.cli import main

if __name__ == "__main__":
    main(prog_name="fusegate")
