"""Reads a compiled HLO module from its serialized proto, as much of it as launches are counted from.

No public route gives the instructions of a compiled program: the module's own object model exists in jaxlib
0.10.2 and later only, its text has no stable grammar. The proto has: field numbers are never reused. Those
read here are the ones of `xla/service/hlo.proto`; ran on the modules of frx 0.10.2, jax 0.7.2, 0.10.2 and
the newest, CPU, and on CUDA modules of jax 0.10.2. Fields that are not known are skipped by the wire format.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fusegate.errors import Location
from fusegate.runtime import frames

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_FIXED32: Final = 5


class MalformedProtoError(ValueError):
    """Bytes that are no protobuf message of the expected kind."""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The varint at a position, and the position after it."""
    value = shift = 0
    try:
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
            shift += 7
            if shift > 63:
                raise MalformedProtoError("a varint of more than ten bytes")
    except IndexError:
        raise MalformedProtoError("a message ends within a varint") from None


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of one message as (number, value), in the order of the bytes.

    Args:
        data: The serialized message.

    Yields:
        An integer for a varint, bytes for everything else.

    Raises:
        MalformedProtoError: The bytes are no message.

    Example:
        >>> list(fields(bytes([8, 150, 1, 18, 2, 104, 105])))
        [(1, 150), (2, b'hi')]
    """
    at, end = 0, len(data)
    while at < end:
        key = data[at]
        at += 1
        if key >= 0x80:  # field numbers from 16 on take a second byte
            key, at = _varint(data, at - 1)
        wire = key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in {_FIXED64, _FIXED32}:
            size = 8 if wire == _FIXED64 else 4
        else:
            raise MalformedProtoError(f"wire type {wire}")
        if at + size > end:
            raise MalformedProtoError("a message ends within a field")
        yield key >> 3, data[at : at + size]
        at += size


def _integers(value: int | bytes) -> list[int]:
    """A repeated integer field, packed into bytes or one by one."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        found.append(number)
    return found


def _text(value: int | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def _number(value: int | bytes) -> int:
    return value if isinstance(value, int) else 0


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a computation.

    Attributes:
        id: Its identity within the module.
        name: Its name, `loop_add_fusion`.
        opcode: What it is, `fusion`.
        op_name: The operation of the program that it comes from, `jit(fn)/while/body/mul`; may be empty.
        frame: Its stack frame, an index into the module's table; 0 for none.
        source: File and line, where the module says them on the instruction itself.
        fusion_kind: `kLoop`, `kInput`, `kOutput` or `kCustom` for a fusion.
        target: Target of a custom call.
        called: Identities of the computations that it calls.
        trip_count: Trips of a loop, where the compiler knows them.
    """

    id: int = 0
    name: str = ""
    opcode: str = ""
    op_name: str = ""
    frame: int = 0
    source: tuple[str, int] | None = None
    fusion_kind: str = ""
    target: str = ""
    called: tuple[int, ...] = ()
    trip_count: int | None = None


def _instruction(data: bytes) -> Instruction:
    """Reads an HloInstructionProto.

    name 1, opcode 2, metadata 7, fusion_kind 11, custom_call_target 28, id 35, called_computation_ids 38,
    backend_config 43.
    """
    strings = {1: "", 2: "", 11: "", 28: ""}
    identity = 0
    metadata = backend = b""
    called: list[int] = []
    for field, value in fields(data):
        if field in strings:
            strings[field] = _text(value)
        elif field == 7 and isinstance(value, bytes):
            metadata = value
        elif field == 35:
            identity = _number(value)
        elif field == 38:
            called += _integers(value)
        elif field == 43 and isinstance(value, bytes):
            backend = value
    op_name, file, line, frame = "", "", 0, 0
    for field, value in fields(metadata):  # OpMetadata
        if field == 2:
            op_name = _text(value)
        elif field == 3:
            file = _text(value)
        elif field == 4:
            line = _number(value)
        elif field == 15:
            frame = _number(value)
    return Instruction(
        id=identity,
        name=strings[1],
        opcode=strings[2],
        op_name=op_name,
        frame=frame,
        source=(file, line) if file else None,
        fusion_kind=strings[11],
        target=strings[28],
        called=tuple(called),
        trip_count=_trip_count(backend) if strings[2] == "while" else None,
    )


def _trip_count(backend: bytes) -> int | None:
    """The trip count in the backend's JSON; None where the compiler does not know it."""
    try:
        return int(json.loads(backend)["known_trip_count"]["n"])
    except (ValueError, KeyError, TypeError):
        return None


class Module:
    """A compiled module. Only the computations that are asked for are read."""

    def __init__(self, data: bytes) -> None:
        """Indexes a serialized `HloModuleProto`: name 1, computations 3, entry id 6, stack frames 17.

        Raises:
            MalformedProtoError: The bytes are no module.
        """
        self.name = ""
        self.entry = 0
        self._raw: dict[int, bytes] = {}
        self._read: dict[int, tuple[Instruction, ...]] = {}
        self._roots: dict[int, int] = {}
        frame_index = b""
        for field, value in fields(data):
            if field == 1:
                self.name = _text(value)
            elif field == 6:
                self.entry = _number(value)
            elif field == 3 and isinstance(value, bytes):
                self._index(value)
            elif field == 17 and isinstance(value, bytes):
                frame_index = value
        if self.entry not in self._raw:
            raise MalformedProtoError("the module has no entry computation")
        self._frames = _Frames(frame_index)

    def _index(self, data: bytes) -> None:
        """HloComputationProto: name 1, instructions 2, id 5, root_id 6."""
        identity = root = 0
        for field, value in fields(data):
            if field == 5:
                identity = _number(value)
            elif field == 6:
                root = _number(value)
        self._raw[identity] = data
        self._roots[identity] = root

    def instructions(self, computation: int) -> tuple[Instruction, ...]:
        """The instructions of a computation, in the order of the module.

        Raises:
            MalformedProtoError: The module has no such computation.
        """
        found = self._read.get(computation)
        if found is None:
            data = self._raw.get(computation)
            if data is None:
                raise MalformedProtoError(f"the module has no computation {computation}")
            found = self._read[computation] = tuple(
                _instruction(value)
                for field, value in fields(data)
                if field == 2 and isinstance(value, bytes)
            )
        return found

    def holds(self, opcode: str) -> bool:
        """Whether any computation has an instruction of this kind, those inside of fusions included."""
        return any(one.opcode == opcode for name in self._raw for one in self.instructions(name))

    def root(self, computation: int) -> Instruction | None:
        """The instruction whose value a computation returns."""
        wanted = self._roots.get(computation)
        return next((one for one in self.instructions(computation) if one.id == wanted), None)

    def location(self, instruction: Instruction) -> Location | None:
        """The innermost line of the user's that an instruction comes from; None where none is kept."""
        for place in self._frames.outwards(instruction.frame):
            if not frames.is_library_file(place.file):
                return place
        if instruction.source is not None and not frames.is_library_file(instruction.source[0]):
            return Location(*instruction.source)
        return None


class _Frames:
    """The module's table of stack frames, a StackFrameIndexProto.

    file_names 1, function_names 2, file_locations 3 (file 1, function 2, line 3), stack_frames 4 (location 1,
    parent 2); each counted from one.
    """

    def __init__(self, data: bytes) -> None:
        self._files: list[str] = []
        self._functions: list[str] = []
        self._locations: list[dict[int, int]] = []
        self._stack: list[dict[int, int]] = []
        for field, value in fields(data):
            if field == 1:
                self._files.append(_text(value))
            elif field == 2:
                self._functions.append(_text(value))
            elif field in {3, 4} and isinstance(value, bytes):
                row = {number: _number(one) for number, one in fields(value)}
                (self._locations if field == 3 else self._stack).append(row)

    def outwards(self, frame: int) -> Iterator[Location]:
        """The lines of a frame and of its callers."""
        for _ in range(256):
            if not 0 < frame <= len(self._stack):
                return
            row = self._stack[frame - 1]
            place = row.get(1, 0)
            if 0 < place <= len(self._locations):
                spot = self._locations[place - 1]
                yield Location(
                    _at(self._files, spot.get(1, 0)),
                    spot.get(3, 0),
                    _at(self._functions, spot.get(2, 0)),
                )
            frame = row.get(2, 0)


def _at(names: list[str], index: int) -> str:
    return names[index - 1] if 0 < index <= len(names) else ""
