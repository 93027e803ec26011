"""The Python stack behind an event: the user's line, and what the runtime was doing on the way to it."""

from __future__ import annotations

import functools
import os
import sysconfig
from types import FrameType
from typing import Literal, NamedTuple

from fusegate.errors import Location
from fusegate.runtime import resolve
from fusegate.runtime.frames import is_library_file, location_of

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
HOOKS = frozenset(_OWN + os.path.join("runtime", name) for name in ("transfer.py", "bufferslot.py"))
"""Files whose frames are on the stack of every read."""

Inside = Literal["", "callback", "trace"]

_PATHS = sysconfig.get_paths()
_INSTALLED = tuple(
    os.path.join(os.path.abspath(_PATHS[name]), "")
    for name in ("purelib", "platlib")
    if name in _PATHS
)
_STDLIB = os.path.join(os.path.abspath(_PATHS["stdlib"]), "")

# Files and functions of the runtime's `_src` that run a callback's body, trace or lower a program, or look for NaN:
# what happens below them is not the driver's own doing. Named alike on frx 0.10.2, jax 0.7.2, 0.10.2 and
# the newest; where a name is gone, such an event counts as the driver's.
_CALLBACKS = frozenset({"callback.py", "debugging.py"})
_TRACES = frozenset(
    {
        "cache_miss",
        "jit_trace",
        "jit_lower",
        "lower_jaxpr_to_module",
        "check_special",
        "_nan_check_posthook",
    }
)


class Place(NamedTuple):
    """Where an event happened.

    Attributes:
        location: The program's own line: the innermost frame that is in no installed package.
        through: The innermost frame outside of the runtime, where that is another one: a library's line.
        inside: `callback` in the body of a callback, `trace` while a program is traced or lowered.
        frame: The frame of `location`.
    """

    location: Location | None
    through: Location | None
    inside: Inside
    frame: FrameType | None

    @property
    def via(self) -> str:
        """` through optax/update.py:43` where a library's line stands between, else empty."""
        return f", through {self.through}" if self.through is not None else ""


@functools.lru_cache(maxsize=4096)
def _is_program(filename: str) -> bool:
    """Whether a file is the program's own: no library, no installed package, no standard library."""
    if is_library_file(filename):
        return False
    path = os.path.abspath(filename) if not filename.startswith("<") else filename
    return not path.startswith((*_INSTALLED, _STDLIB))


@functools.lru_cache(maxsize=4096)
def _inside(filename: str, name: str, directory: str) -> Inside:
    if not filename.startswith(directory):
        return ""
    if os.path.basename(filename) in _CALLBACKS:
        return "callback"
    return "trace" if name in _TRACES or name.startswith("trace_to_jaxpr") else ""


def place(start: FrameType | None, *, launch: bool = False) -> Place:
    """Walks the whole stack of an event once.

    Args:
        start: The innermost frame to look at.
        launch: The event is a launch: the first call of a jit on the stack is the launch itself, and only
            what is around it counts as a trace.
    """
    runtime = resolve.loaded()
    directory = runtime.directory if runtime is not None else "\0"
    program = first = None
    inside: Inside = ""
    frame, own = start, launch
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        if _is_program(name):
            if program is None:
                program = frame
            own = False
        elif not is_library_file(name):
            own = False
        else:
            found = _inside(name, code.co_name, directory)
            if found == "callback":
                inside = found
            elif found == "trace":
                if own and code.co_name == "cache_miss":
                    own = False
                elif not inside:
                    inside = found
        if first is None and not is_library_file(name):
            first = frame
        frame = frame.f_back
    frame = program or first
    through = location_of(first) if first is not None and first is not frame else None
    return Place(location_of(frame) if frame is not None else None, through, inside, frame)


def is_own(frame: FrameType | None) -> bool:
    """Whether an event happens in fusegate's own code, its hooks apart."""
    while frame is not None and frame.f_code.co_filename in HOOKS:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(_OWN)


def asks_for_array(frame: FrameType | None) -> bool:
    """Whether the program's own call is `jnp.array` or `jnp.asarray`: an upload that is spelled out.

    Args:
        frame: The frame that launched the conversion.
    """
    outermost = None
    while frame is not None and is_library_file(frame.f_code.co_filename):
        # A map over a tree of arrays spells it out as well.
        plumbing = os.path.basename(frame.f_code.co_filename) in {"tree_util.py", "tree.py"}
        if frame.f_code.co_name != "reraise_with_filtered_traceback" and not plumbing:
            outermost = frame
        frame = frame.f_back
    return outermost is not None and outermost.f_code.co_name in {"array", "asarray"}
