"""`evidence`: compiles a function for its arguments, or finds what a call has compiled, and looks at it."""

from __future__ import annotations

import functools
import time
import types
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from fusegate import ledger
from fusegate.boundaries import calls
from fusegate.boundaries.proxy import Boundary, spec_of
from fusegate.boundaries.spec import BoundarySpec, callable_name, definition_of
from fusegate.evidence.model import FIGURES, Evidence
from fusegate.observe import evidence as facts
from fusegate.observe.jaxpr import program_facts
from fusegate.runtime import arrays, compiled, events, jit, resolve, targets, trees


def evidence(f: Any, *args: Any, target: str | None = None, **kwargs: Any) -> Evidence:
    """Returns what the compiled program of a function shows of itself.

    Shares the trace, the lowering and the executable with the calls of the function: after a call with equal
    arguments nothing is compiled, and a later call finds what was compiled here. Nothing runs. The trace
    counts as one asked for its own sake, as those of `.lower` do.

    Args:
        f: A boundary or a jitted function; a plain function is jitted first.
        *args: Its arguments. Arrays may be `ShapeDtypeStruct`s, so that none has to exist; of a committed
            array the struct carries the sharding, else it stands for another program.
        target: What to compile for, `cuda:a100`, `cuda:h100` or `cuda:h200`; the process's own backend where
            not given. Compiling for a GPU needs none, but the CUDA plugin of the runtime; where that is missing
            every figure is "not observed". The arrays stand for ones on that GPU, whatever device they are on.
        **kwargs: Its keyword arguments.

    Raises:
        TypeError: `f` is not callable.
        ValueError: `target` is none that is known.
        Violation: Its trace breaks a rule, in strict.

    Example:
        >>> import jax, fusegate
        >>> @fusegate.island
        ... def middle(low, high):
        ...     return low + (high - low) / 2
        >>> found = evidence(middle, *[jax.ShapeDtypeStruct((64,), "float32")] * 2)
        >>> found.launches, found.dynamic_launches, found.argument_bytes
        (1, 1, 512)
    """
    subject = Subject.of(f, args, kwargs)
    if target is not None:
        return _for_target(subject, target)
    steps = Steps.of(subject)
    executable = compiled.executable_of(steps.program)
    where = compiled.platform_of(executable)
    return _evidence(subject, steps, executable, where, subject.spec)


def _for_target(subject: Subject, target: str) -> Evidence:
    reason = targets.unavailable(target)
    if not reason and not callable(getattr(subject.lowerable, "trace", None)):
        reason = "this jit takes no structs in place of arrays"
    placed = None if reason else targets.placed(target, subject.args, subject.kwargs)
    if placed is None:
        reason = reason or "no argument is an array, so nothing says that it belongs on the target"
        missing = dict.fromkeys(FIGURES, reason)
        return subject.evidence(target=target, not_observed=MappingProxyType(missing))
    there = replace(subject, args=placed[0], kwargs=placed[1])
    steps = Steps()
    steps.trace(there)
    lowered, reason = targets.or_refusal(lambda: steps.lower(there))
    if not reason:
        if subject.spec is not None:
            calls.lowered(events.lowering_of(lowered), subject.spec, elsewhere=True)
        _, reason = targets.or_refusal(lambda: steps.compile(lowered))
    if reason:
        figures: dict[str, Any] = {"target": target}
        missing = dict.fromkeys(FIGURES, reason)
        _look_at_trace(steps, figures, missing)
        return subject.evidence(**figures, not_observed=MappingProxyType(missing))
    return _evidence(there, steps, compiled.executable_of(steps.program), target, None)


@dataclass(frozen=True)
class Subject:
    """What evidence is asked of: something with `lower`, and the arguments that it takes.

    Attributes:
        lowerable: A boundary or a jitted function.
        args: Its positional arguments, those of a partial or a bound method included.
        kwargs: Its keyword arguments.
        spec: The declaration, where it is a boundary.
    """

    lowerable: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    spec: BoundarySpec | None

    @classmethod
    def of(cls, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Subject:
        """Finds the jit behind a function, a bound method or a partial; a plain function is jitted.

        Raises:
            TypeError: `f` is not callable.
        """
        if not callable(f):
            raise TypeError(f"evidence is of a callable, not of {type(f).__name__}")
        return cls.find(f, args, kwargs) or cls(jit.make_jit(f), args, kwargs, None)

    @classmethod
    def find(cls, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Subject | None:
        """Finds the jit behind a function, a bound method or a partial; None where it has none."""
        while True:
            if isinstance(f, types.MethodType) and hasattr(f.__func__, "lower"):
                f, args = f.__func__, (f.__self__, *args)
            elif isinstance(f, functools.partial) and hasattr(f.func, "lower"):
                f, args, kwargs = f.func, (*f.args, *args), {**f.keywords, **kwargs}
            else:
                break
        if not hasattr(f, "lower"):
            return None
        return cls(f, args, kwargs, spec_of(f) if type(f) is Boundary else None)

    @staticmethod
    def name_of(f: Any) -> str:
        """Name of a callable that is no boundary."""
        return callable_name(getattr(f, "__wrapped__", f))

    @property
    def name(self) -> str:
        """Name in messages."""
        return self.spec.name if self.spec is not None else self.name_of(self.lowerable)

    @property
    def role(self) -> str:
        """Role of the boundary; `jit` where it is none."""
        return self.spec.role if self.spec is not None else "jit"

    @property
    def _plain(self) -> Any:
        return getattr(self.lowerable, "__wrapped__", self.lowerable)

    def described(self) -> str:
        """Shapes and dtypes of the arguments, never a value; what is no array by its type."""
        leaves, _ = trees.leaves_of((self.args, self.kwargs))
        texts = [
            arrays.describe_parts(tuple(leaf.shape), arrays.short_dtype(leaf.dtype))
            if hasattr(leaf, "shape") and hasattr(leaf, "dtype")
            else type(leaf).__name__
            for leaf in leaves
        ]
        more = f", and {len(texts) - 6} more" if len(texts) > 6 else ""
        return ", ".join(texts[:6]) + more

    def evidence(self, **figures: Any) -> Evidence:
        """An evidence of this subject."""
        runtime = resolve.required()
        defined = self.spec.defined if self.spec is not None else definition_of(self._plain)
        return Evidence(
            name=self.name,
            role=self.role,
            defined=defined,
            arguments=self.described(),
            runtime=f"{runtime.name} {runtime.version}",
            **figures,
        )


@dataclass
class Steps:
    """The steps to a compiled program, each with its seconds; None for a step that a cache served.

    Attributes:
        traced: The runtime's `Traced`; None where the jit has no `trace`.
        program: The runtime's `Compiled`.
        seconds: `trace`, `lower`, `compile` -> seconds.
        cached: The steps that a cache served.
    """

    traced: Any = None
    program: Any = None
    seconds: dict[str, float] = field(default_factory=dict)
    cached: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, subject: Subject) -> Steps:
        """Traces, lowers and compiles, as far as no cache has it."""
        steps = cls()
        steps.trace(subject)
        steps.compile(steps.lower(subject))
        return steps

    def trace(self, subject: Subject) -> None:
        """Traces, where the jit has a step for it."""
        trace = getattr(subject.lowerable, "trace", None)
        if callable(trace):
            self.traced = self.take("trace", lambda: trace(*subject.args, **subject.kwargs))

    def lower(self, subject: Subject) -> Any:
        """Lowers, and traces where that has no step of its own; returns the runtime's `Lowered`."""
        return self.take("lower", lambda: subject.lowerable.lower(*subject.args, **subject.kwargs))

    def compile(self, lowered: Any) -> None:
        """Compiles."""
        self.program = self.take("compile", lowered.compile)

    def take(self, phase: str, work: Any) -> Any:
        """Does the work of one step, and notes how long it took if it was not served from a cache."""
        with compiled.phases_worked() as worked:
            start = time.perf_counter()
            out = work()
            seconds = time.perf_counter() - start
        if phase in worked:
            self.seconds[phase] = seconds
        else:
            self.cached.add(phase)
        return out


def _evidence(
    subject: Subject, steps: Steps, executable: Any, target: str, counted_for: BoundarySpec | None
) -> Evidence:
    missing: dict[str, str] = {}
    figures: dict[str, Any] = {"target": target}
    _look_at_module(executable, figures, missing)
    _look_at_trace(steps, figures, missing)
    memory = compiled.memory_of(executable)
    for name in ("temp", "peak", "argument", "output", "alias"):
        value = figures[f"{name}_bytes"] = getattr(memory, name, None)
        if value is None:
            missing[f"{name}_bytes"] = "this backend shows no such figure"
    cost = compiled.cost_of(steps.program)
    figures["flops"], figures["bytes_accessed"] = cost.flops, cost.bytes_accessed
    for name in ("flops", "bytes_accessed"):
        if figures[name] is None:
            missing[name] = cost.why_not
    _look_at_seconds(counted_for, steps, figures, missing)
    return subject.evidence(**figures, not_observed=MappingProxyType(missing))


def _look_at_module(executable: Any, figures: dict[str, Any], missing: dict[str, str]) -> None:
    module = compiled.module_of(executable)
    if module is None:
        missing["launches"] = missing["dynamic_launches"] = "this backend shows no compiled module"
        return
    counted = facts.count_launches(module)
    figures["launches"], figures["dynamic_launches"] = counted.static, counted.dynamic
    figures["kernels"] = facts.kernels_of(module)
    if counted.dynamic is None:
        missing["dynamic_launches"] = "a loop's trip count is not known before it runs"


def _look_at_trace(steps: Steps, figures: dict[str, Any], missing: dict[str, str]) -> None:
    names = ("equations", "constant_bytes")
    if steps.traced is None:
        missing.update(dict.fromkeys(names, "this jit gives no traced program"))
        return
    program = program_facts(steps.traced.jaxpr)
    figures["equations"], figures["constant_bytes"] = program.equations, program.constant_bytes
    for name in names:
        missing.pop(name, None)


def _look_at_seconds(
    spec: BoundarySpec | None, steps: Steps, figures: dict[str, Any], missing: dict[str, str]
) -> None:
    """Seconds of each step; of one that a cache served, what the boundary's only compile took."""
    counted = ledger.current().counters_of(spec) if spec is not None else ledger.Counters()
    # The seconds in the ledger are those of all its programs, derived ones included.
    single = counted.traces == 1 and counted.compiles + counted.cache_hits == 1
    single = single and not counted.derived_compiles
    for phase in ("trace", "lower", "compile"):
        name = f"{phase}_s"
        figures[name] = steps.seconds.get(phase)
        if figures[name] is None and single:
            figures[name] = getattr(counted, name)
        elif figures[name] is None:
            missing[name] = "done before, by a call or an earlier evidence"
