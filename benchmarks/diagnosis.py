"""Does the tool name the true cause? One tiny program per kind of cause, run under each of four tools.

    python benchmarks/diagnosis.py [--runtime jax|frx] [--verbose]

Each program calls one function twice so that the second call traces or compiles again, for one known
reason, in one known place. The tools are fusegate, `eqx.debug.assert_max_traces`,
`chex.assert_max_traces` and the runtime's own `jax_explain_cache_misses`. Every cell is a process of its own.

fusegate has named the cause when its `Cause` has the right kind and the right path. A peer has when the text of
its error, or of its log records for the second call, holds both patterns of the row: where it was (the argument
by name or position, the option) and what changed about it. The other verdicts:

    where only   the place, but not what changed
    that it did  that there was another trace or compile, and no more
    silent       nothing
"""

import argparse
import importlib
import json
import logging
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

from _common import versions

TOOLS = {
    "fusegate": "fusegate",
    "eqx": "eqx.debug.assert_max_traces",
    "chex": "chex.assert_max_traces",
    "explain": "jax_explain_cache_misses",
}
OPTION = "jax_default_matmul_precision"


@dataclass(frozen=True)
class Program:
    """One cause, twice called.

    Attributes:
        run: Calls what `wrap` made of a function twice, and `between()` before the second call.
        path: What fusegate's cause must have as its path.
        where: What a peer's text must match to have named the place.
        why: What it must match to have named the change.
    """

    run: Callable[..., None]
    path: str
    where: str
    why: str


PROGRAMS: dict[str, Program] = {}


def program(kind: str, path: str, *, where: str, why: str) -> Callable[..., Callable[..., None]]:
    """Enters a program under its kind."""

    def enter(run: Callable[..., None]) -> Callable[..., None]:
        PROGRAMS[kind] = Program(run, path, where, why)
        return run

    return enter


def twice(call: Callable[..., Any], between: Callable[[], None], *cases: Callable[[], Any]) -> None:
    """Calls with the first case, then, observed, with the second; cases are built before they are used."""
    first, second = (case() for case in cases)
    call(*first[0], **first[1])
    between()
    call(*second[0], **second[1])


def arguments(*args: Any, **kwargs: Any) -> Callable[[], tuple[Any, Any]]:
    """The arguments of one call."""
    return lambda: (args, kwargs)


# ---- one program per kind --------------------------------------------------------------------------


@program("shape", "table", where=r"\btable\b", why=r"f32\[8\].*f32\[4\]")
def _(jax, wrap, between):
    def fold(table):
        return table * 2

    fold = wrap(fold)
    jnp = jax.numpy
    twice(fold, between, arguments(jnp.ones(4)), arguments(jnp.ones(8)))


@program("dtype", "table", where=r"\btable\b", why=r"i32\[4\].*f32\[4\]")
def _(jax, wrap, between):
    def fold(table):
        return table * 2

    fold = wrap(fold)
    jnp = jax.numpy
    twice(fold, between, arguments(jnp.ones(4)), arguments(jnp.ones(4, jnp.int32)))


@program("weak_type", "rate", where=r"\brate\b", why=r"weak")
def _(jax, wrap, between):
    def scale(x, rate):
        return x * rate

    scale = wrap(scale)
    jnp = jax.numpy
    x = jnp.ones(4)
    strong, weak = jnp.float32(2.0), jnp.asarray(2.0)
    assert weak.weak_type
    twice(scale, between, arguments(x, strong), arguments(x, weak))


@program("python_scalar", "rate", where=r"\brate\b", why=r"weak|[Pp]ython")
def _(jax, wrap, between):
    def scale(x, rate):
        return x * rate

    scale = wrap(scale)
    jnp = jax.numpy
    x = jnp.ones(4)
    twice(scale, between, arguments(x, jnp.float32(2.0)), arguments(x, 2.0))


@program("structure", "state", where=r"\bstate\b|path \[0\]\[0\]", why=r"bias")
def _(jax, wrap, between):
    def apply(state):
        return state["weight"] * 2

    apply = wrap(apply)
    jnp = jax.numpy
    w = jnp.ones(4)
    twice(apply, between, arguments({"weight": w}), arguments({"weight": w, "bias": w}))


@program("leaf_type", "scale", where=r"\bscale\b", why=r"\b2\.0\b.*f32\[\]")
def _(jax, wrap, between):
    def apply(x, scale):
        return x * scale

    apply = wrap(apply, filter=True)
    jnp = jax.numpy
    x = jnp.ones(4)
    twice(apply, between, arguments(x, jnp.float32(2.0)), arguments(x, 2.0))


@program("static_value", "step", where=r"\bstep\b", why=r"\b2\b.*\b1\b")
def _(jax, wrap, between):
    def decay(x, step):
        return x * 0.5**step

    decay = wrap(decay, static_argnames=("step",))
    x = jax.numpy.ones(4)
    twice(decay, between, arguments(x, step=1), arguments(x, step=2))


def transcript_class(jax):
    """A pytree with one piece of metadata."""

    @dataclass(frozen=True)
    class Transcript:
        lanes: Any
        permutation: Any

    jax.tree_util.register_dataclass(Transcript, data_fields=["lanes"], meta_fields=["permutation"])
    return Transcript


@program(
    "meta_value",
    "transcript.permutation",
    where=r"permutation=|path \[0\]\[0\]",
    why=r"\b8\b.*\b4\b",
)
def _(jax, wrap, between):
    transcript_of = transcript_class(jax)

    def absorb(transcript):
        return transcript.lanes * transcript.permutation

    absorb = wrap(absorb)
    lanes = jax.numpy.ones(4)
    twice(absorb, between, arguments(transcript_of(lanes, 4)), arguments(transcript_of(lanes, 8)))


@program(
    "meta_identity",
    "transcript.permutation",
    where=r"permutation=|path \[0\]\[0\]",
    why=r"identity|__eq__|__hash__",
)
def _(jax, wrap, between):
    transcript_of = transcript_class(jax)

    class Permutation:
        width = 4

    def absorb(transcript):
        return transcript.lanes * transcript.permutation.width

    absorb = wrap(absorb)
    lanes = jax.numpy.ones(4)
    equal = [arguments(transcript_of(lanes, Permutation())) for _ in range(2)]
    twice(absorb, between, *equal)


@program("callable", "combine", where=r"\bcombine\b", why=r"anew|re-?defined|new object")
def _(jax, wrap, between):
    def reduce(x, combine):
        return combine(x, x)

    reduce = wrap(reduce, static_argnames=("combine",))
    x = jax.numpy.ones(4)
    equal = [arguments(x, combine=lambda a, b: a + b) for _ in range(2)]
    twice(reduce, between, *equal)


@program("call_form", "rate", where=r"\brate\b", why=r"keyword|positional|key sets: \{'rate'\}")
def _(jax, wrap, between):
    def scale(x, rate):
        return x * rate

    scale = wrap(scale)
    jnp = jax.numpy
    x, rate = jnp.ones(4), jnp.float32(2.0)
    twice(scale, between, arguments(x, rate), arguments(x, rate=rate))


def placements(jax):
    """Two shardings over two CPU devices."""
    mesh = jax.sharding.Mesh(jax.devices(), ("rows",))
    spec = jax.sharding.PartitionSpec
    return [jax.sharding.NamedSharding(mesh, s) for s in (spec("rows"), spec())]


@program("sharding", "table", where=r"\btable\b", why=r"[Ss]harding")
def _(jax, wrap, between):
    def fold(table):
        return table * 2

    fold = wrap(fold)
    x = jax.numpy.ones(4)
    twice(fold, between, *(arguments(jax.device_put(x, s)) for s in placements(jax)))


@program("committed", "params", where=r"\bparams\b", why=r"commit")
def _(jax, wrap, between):
    def step(params):
        return params * 2

    step = wrap(step)
    x = jax.numpy.ones(4)
    placed = jax.device_put(x, jax.devices()[0])
    twice(step, between, arguments(x), arguments(placed))


@program("config", OPTION, where=r"matmul_precision", why=r"high.*None")
def _(jax, wrap, between):
    def product(x):
        return x @ x

    product = wrap(product)
    x = jax.numpy.ones((4, 4))
    product(x)
    between()
    with jax.default_matmul_precision("high"):
        product(x)


@program("cache_cleared", "", where=r"", why=r"caches? (was|were) cleared|dropped|evicted")
def _(jax, wrap, between):
    def fold(table):
        return table * 2

    fold = wrap(fold)
    x = jax.numpy.ones(4)
    fold(x)
    jax.clear_caches()
    between()
    fold(x)


# ---- one run of one tool ---------------------------------------------------------------------------


class Records(logging.Handler):
    """Keeps the text of log records."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps one."""
        self.texts.append(record.getMessage())


def jit_with(jax: Any, fn: Callable[..., Any], **keywords: Any) -> Any:
    """The runtime's jit, or Equinox's where the program needs the filter."""
    if keywords.pop("filter", False):
        import equinox as eqx

        return eqx.filter_jit(fn, **keywords)
    return jax.jit(fn, **keywords)


def run_fusegate(jax: Any, wanted: Program) -> dict[str, Any]:
    """The cause that fusegate gives for the second call: kind, path and text."""
    import fusegate

    made = []

    def wrap(fn, **keywords):
        made.append(fusegate.island(fn, mode="warn", max_traces=1, **keywords))
        return made[-1]

    wanted.run(jax, wrap, lambda: None)
    causes = [cause for island in made for cause in fusegate.stats(island).causes]
    if not causes:
        return {"kind": "", "path": "", "text": ""}
    return {"kind": causes[-1].kind, "path": causes[-1].path, "text": str(causes[-1])}


def run_assertion(jax: Any, wanted: Program, limited: Callable[..., Any]) -> dict[str, Any]:
    """What a peer that raises on a second trace says."""
    try:
        wanted.run(jax, lambda fn, **kw: jit_with(jax, limited(fn), **kw), lambda: None)
    except (AssertionError, RuntimeError) as error:
        return {"text": str(error)}
    return {"text": ""}


def run_eqx(jax: Any, wanted: Program) -> dict[str, Any]:
    """Equinox's assertion."""
    import equinox as eqx

    return run_assertion(jax, wanted, eqx.debug.assert_max_traces(max_traces=1))


def run_chex(jax: Any, wanted: Program) -> dict[str, Any]:
    """Chex's assertion."""
    import chex

    return run_assertion(jax, wanted, partial(chex.assert_max_traces, n=1))


def run_explain(jax: Any, wanted: Program) -> dict[str, Any]:
    """The runtime's log of cache misses, for the second call."""
    records = Records()
    logger = logging.getLogger(jax.__name__)
    logger.setLevel(logging.DEBUG)

    def start() -> None:
        jax.config.update("jax_explain_cache_misses", True)
        logger.addHandler(records)

    wanted.run(jax, lambda fn, **kw: jit_with(jax, fn, **kw), start)
    return {"text": "\n".join(t for t in records.texts if "CACHE MISS" in t)}


def run_one(runtime: str, kind: str, tool: str) -> dict[str, Any]:
    """Runs one program under one tool, in this process."""
    jax = importlib.import_module(runtime)
    importlib.import_module(f"{runtime}.numpy")
    runner = {
        "fusegate": run_fusegate,
        "eqx": run_eqx,
        "chex": run_chex,
        "explain": run_explain,
    }[tool]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return runner(jax, PROGRAMS[kind])


# ---- the table -------------------------------------------------------------------------------------


def verdict(kind: str, tool: str, seen: dict[str, Any]) -> str:
    """What a cell of the table says."""
    if "failed" in seen:
        return "failed"
    wanted, text = PROGRAMS[kind], seen["text"]
    if not text:
        return "silent"
    if tool == "fusegate":
        where, why = seen["path"] == wanted.path, seen["kind"] == kind
    else:
        where, why = (re.search(p, text, re.DOTALL) for p in (wanted.where, wanted.why))
    return "named" if where and why else "where only" if where and wanted.path else "that it did"


def cell(runtime: str, kind: str, tool: str) -> dict[str, Any]:
    """Runs one program under one tool, in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FUSEGATE_")}
    environment |= {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    }
    done = subprocess.run(
        [sys.executable, __file__, "--runtime", runtime, "--one", kind, tool],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        return {"failed": True, "text": done.stderr}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    """Prints the table; exit status 1 where fusegate leaves a kind unnamed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runtime", choices=["jax", "frx"], default="jax")
    parser.add_argument("--verbose", action="store_true", help="print what each tool says")
    parser.add_argument("--one", nargs=2, metavar=("KIND", "TOOL"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(run_one(chosen.runtime, *chosen.one)))
        return 0
    from fusegate.errors import CauseKind

    assert set(PROGRAMS) == set(get_args(CauseKind)) - {"none"}
    cells = [(kind, tool) for kind in PROGRAMS for tool in TOOLS]
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        seen = dict(zip(cells, pool.map(lambda c: cell(chosen.runtime, *c), cells), strict=True))
    said = {(kind, tool): verdict(kind, tool, seen[kind, tool]) for kind, tool in cells}
    print(versions(chosen.runtime, "equinox", "chex"))
    print(f"\n{'true cause':15}" + "".join(f"{name:30}" for name in TOOLS.values()))
    for kind in PROGRAMS:
        print(f"{kind:15}" + "".join(f"{said[kind, tool]:30}" for tool in TOOLS))
    totals = {tool: sum(said[kind, tool] == "named" for kind in PROGRAMS) for tool in TOOLS}
    print(f"{'named':15}" + "".join(f"{f'{totals[t]} of {len(PROGRAMS)}':30}" for t in TOOLS))
    for (kind, tool), what in said.items():
        if chosen.verbose or what == "failed" or (tool == "fusegate" and what != "named"):
            print(f"\n[{kind}] {TOOLS[tool]}: {what}\n{seen[kind, tool]['text']}")
    return 0 if totals["fusegate"] == len(PROGRAMS) else 1


if __name__ == "__main__":
    sys.exit(main())
