"""The decorated object: a C-level proxy over the runtime's own compiled function.

Before its first call the proxy holds a small Python callable that finds the runtime, makes the jit and
runs the call; from then on it holds the compiled function itself, and a call is one C slot away from it.
"""

from __future__ import annotations

import functools
import threading
import types
import weakref
from typing import TYPE_CHECKING, Any, Final

import wrapt

from fusegate.boundaries import body, calls, melt, programs
from fusegate.boundaries.filtering import FilterCall, filtered
from fusegate.boundaries.spec import BoundarySpec
from fusegate.runtime import events, jit, resolve

_HOLD: Final[Any] = next(
    (
        vars(kind)["__wrapped__"]
        for kind in wrapt.CallableObjectProxy.__mro__
        if "__wrapped__" in vars(kind)
    ),
    None,
)
"""wrapt's own slot for what a proxy holds. `Boundary` gives the name `__wrapped__` to the user's function,
as `jit` does, so the held callable is read and exchanged through this descriptor."""

if not isinstance(_HOLD, types.GetSetDescriptorType):
    raise ImportError(
        "fusegate needs wrapt's C extension: its pure-Python proxy would put Python on every warm call. "
        "Install a wrapt wheel for this interpreter, and unset WRAPT_DISABLE_EXTENSIONS."
    )

_making = threading.RLock()

_NO_ARRAY = ("not a valid JAX type", "Error interpreting argument to")
"""How the runtime's refusals of a leaf that is no array begin; there is no class of its own for them."""


if TYPE_CHECKING:
    _Proxy = wrapt.CallableObjectProxy[Any]
else:  # wrapt 2.0 has no subscript at run time
    _Proxy = wrapt.CallableObjectProxy


class Boundary(_Proxy):
    """A function with a declared jit boundary around it.

    Everything that the runtime's jitted function offers (`lower`, `trace`, `eval_shape`, `clear_cache`)
    is there, and `__wrapped__` is the function as it was written.
    """

    def __init__(self, spec: BoundarySpec) -> None:
        super().__init__(_Cold(self, spec))
        self._self_spec = spec
        if spec.role == "round body":
            melt.register(self)

    @property
    def __wrapped__(self) -> Any:
        """The user's function."""
        return self._self_spec.fn

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __copy__(self) -> Boundary:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Boundary:
        return self

    def __reduce_ex__(self, protocol: Any) -> str:
        """Pickles by reference, as a module-level function does."""
        return str(self.__qualname__)

    def __repr__(self) -> str:
        spec = self._self_spec
        return f"<{spec.role} {spec.name} at {spec.defined}>"

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Traces and lowers for the arguments, as `jit(...).lower`."""
        __tracebackhide__ = True
        lowered = compiled(self._self_spec).lower(*args, **kwargs)
        calls.lowered(events.lowering_of(lowered), self._self_spec)
        return lowered

    def clear_cache(self) -> None:
        """Forgets the compiled programs of this function; the next trace of each is no retrace."""
        spec = self._self_spec
        compiled(spec).clear_cache()
        spec.attributes["clears"] = spec.attributes.get("clears", 0) + 1

    def exchange(self, *, melting: bool) -> None:
        """Uses the callable that melts into a trace, or goes back to the compiled function."""
        spec = self._self_spec
        ready = spec.attributes.get("callable")
        if melting:
            _HOLD.__set__(self, melt.melting_callable(spec, ready or _Cold(self, spec)))
        else:
            _HOLD.__set__(self, ready or _Cold(self, spec))


class _Cold:
    """What a boundary holds before its first finished call."""

    def __init__(self, proxy: Boundary, spec: BoundarySpec) -> None:
        vars(self)["_proxy"] = weakref.ref(proxy)
        vars(self)["_spec"] = spec
        functools.update_wrapper(self, spec.fn, updated=())
        del self.__wrapped__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        spec: BoundarySpec = self._spec
        ready = compiled(spec)
        try:
            out = ready(*args, **kwargs)
        except TypeError as error:
            _explain_leaf(spec, error)
            raise
        proxy = self._proxy()
        if proxy is not None and _HOLD.__get__(proxy) is self:
            _HOLD.__set__(proxy, ready)
        return out

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        # The runtime's export asks isinstance() of a function that may not have been called yet.
        if self._spec.filter or resolve.loaded() is None:
            return _Cold
        return jit.jitted_type()

    def __getattr__(self, name: str) -> Any:
        # Dunder look-ups (copy, pickle, pytest's collection) must not make a jit, or want a runtime.
        if name.startswith("__") or resolve.loaded() is None:
            raise AttributeError(name)
        return getattr(compiled(self._spec), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):  # what update_wrapper copies
            vars(self)[name] = value
        else:
            setattr(compiled(self._spec), name, value)


def compiled(spec: BoundarySpec) -> Any:
    """The compiled function of a boundary, made on first use.

    Raises:
        FusegateError: The program has imported no runtime.
        RuntimeOrderError: `jax` was imported before `frx`.
    """
    ready = spec.attributes.get("callable")
    if ready is None:
        with _making:  # two threads may both come here; there is one program space for both
            ready = spec.attributes.get("callable")
            if ready is None:
                ready = spec.attributes["callable"] = _make(spec)
    return ready


def _make(spec: BoundarySpec) -> Any:
    resolve.required()
    jit.prepare()
    programs.register(spec)
    if not spec.filter:
        jitted = jit.make_jit(body.traced_body(spec, spec.fn), **spec.jit_keywords)
        spec.attributes["jitted"] = jitted
        return jitted
    keywords = {
        key: value for key, value in spec.jit_keywords.items() if not key.startswith("donate")
    }
    if spec.arguments.donated_nums:
        keywords["donate_argnums"] = (0,)
    traced = body.traced_body(spec, filtered(spec))
    # The partitioned form has arguments of its own; the user's names are for messages only.
    del traced.__wrapped__  # type: ignore[attr-defined]
    jitted = jit.make_jit(traced, static_argnums=(2,), **keywords)
    spec.attributes["jitted"] = jitted
    return FilterCall(spec, jitted)


def _explain_leaf(spec: BoundarySpec, error: TypeError) -> None:
    """Says which decorator argument accepts a leaf that plain `jit` refuses."""
    if not spec.filter and any(text in str(error) for text in _NO_ARRAY):
        error.add_note(
            f"fusegate: {spec.role} `{spec.name}` traces every leaf of its arguments, as jit does. Declare "
            "filter=True to trace the arrays and keep every other leaf static, or name static arguments "
            "with static_argnames."
        )


def spec_of(boundary: Any) -> BoundarySpec:
    """Returns the declaration behind a decorated function or a bound method of one.

    Raises:
        TypeError: It is no boundary.
    """
    if isinstance(boundary, types.MethodType):
        boundary = boundary.__func__
    if type(boundary) is not Boundary:
        raise TypeError(
            f"{type(boundary).__name__} is no boundary: decorate it with island, single_zone or round_body"
        )
    return boundary._self_spec
