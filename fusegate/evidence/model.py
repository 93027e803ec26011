"""The value that `evidence` returns: figures of one compiled program, frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from fusegate.errors import Location
from fusegate.observe.evidence import Kernel

if TYPE_CHECKING:
    from rich.text import Text

    from fusegate.evidence.diff import EvidenceDiff

FIGURES: Final = (
    "launches", "dynamic_launches", "equations", "temp_bytes", "peak_bytes", "argument_bytes",
    "output_bytes", "alias_bytes", "constant_bytes", "flops", "bytes_accessed", "trace_s", "lower_s",
    "compile_s",
)  # fmt: skip
"""The figures of an `Evidence`, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one compiled program shows of itself. A figure that could not be seen is None, never 0.

    Attributes:
        name: Name of the function.
        role: `island`, `single zone` or `round body`; `jit` for a jit that is no boundary.
        defined: Where the function is defined.
        arguments: Shapes and dtypes of the arguments, `f32[8,4], f32[4]`.
        target: What it is compiled for: `cpu`, `cuda:h100`.
        runtime: The array library with its version, `frx 0.10.2`.
        launches: Launches that the program holds: kernels, copies and library calls. A loop's body and
            condition count once, and so does every branch.
        dynamic_launches: Launches of one call: loops times their trips, of a conditional the larger branch.
        kernels: The launches by kind, line and operations.
        equations: Equations of the traced program, those of a shared sub-program once per use.
        temp_bytes: Temporary buffers.
        peak_bytes: The most that is alive at once; the compiler's estimate.
        argument_bytes: Arguments.
        output_bytes: Results.
        alias_bytes: Results that take the place of a donated argument.
        constant_bytes: Closed-over arrays, baked into the program.
        flops: Floating-point operations, as the compiler counts them (field arithmetic counts as integers).
        bytes_accessed: Bytes that the program reads and writes, as the compiler counts them.
        trace_s: Seconds of the trace.
        lower_s: Seconds of the lowering.
        compile_s: Seconds of the backend compile, or of loading from the persistent cache.
        not_observed: Figure -> why it could not be seen.
    """

    name: str
    role: str = "jit"
    defined: Location | None = None
    arguments: str = ""
    target: str = ""
    runtime: str = ""
    launches: int | None = None
    dynamic_launches: int | None = None
    kernels: tuple[Kernel, ...] = ()
    equations: int | None = None
    temp_bytes: int | None = None
    peak_bytes: int | None = None
    argument_bytes: int | None = None
    output_bytes: int | None = None
    alias_bytes: int | None = None
    constant_bytes: int | None = None
    flops: float | None = None
    bytes_accessed: float | None = None
    trace_s: float | None = None
    lower_s: float | None = None
    compile_s: float | None = None
    not_observed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def figures(self) -> dict[str, int | float | None]:
        """The figures by name, in the order in which they are shown."""
        return {name: getattr(self, name) for name in FIGURES}

    def diff(self, other: Evidence) -> EvidenceDiff:
        """Compares with another evidence, this one being the earlier.

        Args:
            other: The later evidence.

        Returns:
            The figures that moved, and the kernels that came or went.
        """
        from fusegate.evidence.diff import diff_of

        return diff_of(self, other)

    def to_text(self) -> str:
        """Returns the evidence as plain text, without colours."""
        from fusegate.evidence import render

        return render.evidence_text(self).plain

    def __str__(self) -> str:
        return self.to_text()

    def __rich__(self) -> Text:
        """The evidence as rich prints it."""
        from fusegate.evidence import render

        return render.evidence_text(self)

    def _repr_html_(self) -> str:
        """The evidence as a notebook shows it."""
        from fusegate.evidence import render

        return render.evidence_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Returns the evidence as plain data."""
        return {
            "name": self.name,
            "role": self.role,
            "arguments": self.arguments,
            "target": self.target,
            "runtime": self.runtime,
            **self.figures(),
            "kernels": [
                {
                    "kind": one.kind,
                    "location": None if one.location is None else str(one.location),
                    "ops": list(one.ops),
                    "loop": list(one.loop),
                    "launches": one.launches,
                    "runs": one.runs,
                }
                for one in self.kernels
            ],
            "not_observed": dict(self.not_observed),
        }
