"""`@state` as a dataclass and as a pytree: transformations, inheritance, slots, pickling, replacing."""

import copy
import dataclasses
import inspect
import pickle
from typing import Any, ClassVar, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from fusegate.state.declare import meta, replace, state

T = TypeVar("T")


@state
class Sponge:
    lanes: Any
    rate: int = meta(default=8)


@state(slots=True)
class Slotted:
    lanes: Any
    rate: int = meta(default=8)


@state
class Wide(Sponge):
    extra: Any = None
    label: str = meta(default="wide")


@state(kw_only=True)
class Keyword:
    rate: int = meta(default=8)
    lanes: Any


@state
class Boxed(Generic[T]):
    item: T
    kind: ClassVar[str] = "box"


@state
class Nested:
    sponge: Sponge
    tables: Any = dataclasses.field(default_factory=tuple)
    name: str = meta(default_factory=lambda: "n")


@state
class Counted:
    lanes: Any
    start: dataclasses.InitVar[int] = 3
    count: Any = dataclasses.field(init=False, default=None)
    built: int = meta(init=False, default=0)

    def __post_init__(self, start):
        object.__setattr__(self, "count", jnp.int32(start))
        object.__setattr__(self, "built", 7)


@state
class Handmade:
    lanes: Any
    rate: int = meta()

    def __init__(self, width):
        object.__setattr__(self, "lanes", jnp.zeros(width))
        object.__setattr__(self, "rate", width // 2)


@state
class Plain:
    lanes: Any


@state
class Allocated:
    lanes: Any
    rate: int = meta(default=8)

    def __new__(cls, *args, **kwargs):
        assert "_fusegate_meta" not in kwargs
        return super().__new__(cls)


class Fast(Sponge):  # not decorated: the fields are its parent's
    def double(self):
        return self.lanes * 2


class Preset(Sponge):
    def __init__(self, width):
        super().__init__(jnp.zeros(width), rate=width // 2)


X = jnp.arange(4.0)
INSTANCES = [
    Sponge(X, 4),
    Slotted(X, rate=4),
    Wide(X, 4, extra=X),
    Keyword(lanes=X),
    Boxed[int](X),
    Nested(Sponge(X), (X, [X])),
    Counted(X),
    Handmade(8),
    Plain(X),
    Allocated(X),
    Fast(X),
    Preset(8),
]
ids = [type(item).__name__ for item in INSTANCES]


def same(one, other):
    assert type(one) is type(other)
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for before, after in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert before.dtype == after.dtype
        assert (before == after).all()
    for field in dataclasses.fields(one):
        if field.metadata.get("static"):
            assert getattr(one, field.name) == getattr(other, field.name)


@pytest.mark.parametrize("item", INSTANCES, ids=ids)
class TestEveryKind:
    def test_a_jit_gives_it_back_and_traces_once(self, item):
        runs = []

        @jax.jit
        def through(value):
            runs.append(1)
            return value

        same(through(item), item)
        same(through(through(copy.copy(item))), item)
        assert len(runs) == 1

    def test_map_flatten_and_paths(self, item):
        same(jax.tree.map(lambda leaf: leaf, item), item)
        assert set(jax.tree.leaves(jax.tree.map(lambda leaf: "x", item))) == {"x"}
        jax.tree.map(lambda leaf: None, item)
        keyed, treedef = jax.tree_util.tree_flatten_with_path(item)
        assert all(isinstance(path[0], jax.tree_util.GetAttrKey) for path, _ in keyed)
        same(jax.tree.unflatten(treedef, [leaf for _, leaf in keyed]), item)

    def test_pickle_and_copies(self, item):
        same(pickle.loads(pickle.dumps(item)), item)
        same(copy.copy(item), item)
        same(copy.deepcopy(item), item)

    def test_transformations(self, item):
        axes = jax.tree.map(lambda leaf: 0, item)
        stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), item)
        same(
            jax.tree.map(lambda leaf: leaf[0], jax.vmap(lambda s: s, in_axes=(axes,))(stacked)),
            item,
        )
        carried, _ = jax.lax.scan(lambda carry, _: (carry, None), item, None, length=3)
        same(carried, item)
        shapes = jax.eval_shape(lambda s: s, item)
        assert type(shapes) is type(item)
        assert jax.tree.structure(shapes) == jax.tree.structure(item)
        same(jax.lax.cond(True, lambda s: s, lambda s: s, item), item)

    def test_it_is_frozen_and_shows_no_value(self, item):
        with pytest.raises(dataclasses.FrozenInstanceError):
            item.lanes = 0
        assert "Array" not in repr(item)
        assert repr(item).startswith(type(item).__name__)

    def test_fields_are_those_that_were_declared(self, item):
        assert "_fusegate_meta" not in {field.name for field in dataclasses.fields(item)}
        assert "_fusegate_meta" not in repr(inspect.signature(type(item)))


def test_grad_through_a_state():
    grads = jax.grad(lambda s: (s.lanes**2).sum())(Sponge(X))
    assert isinstance(grads, Sponge)
    assert (grads.lanes == 2 * X).all()


def test_vmap_axes_as_a_state():
    out = jax.vmap(lambda s: s.lanes * s.rate, in_axes=(Sponge(0, 2),))(Sponge(X, 2))
    assert (out == 2 * X).all()


def test_no_constructor_runs_when_a_jit_returns_a_state():
    built = []

    @state
    class Watched:
        lanes: Any
        rate: int = meta(default=8)

        def __post_init__(self):
            built.append(type(self.lanes).__name__)
            assert self.lanes.ndim == 1

    item = Watched(X)
    through = jax.jit(lambda s: s)
    through(through(item))
    jax.tree.map(lambda leaf: None, item)
    jax.vmap(lambda s: s, in_axes=(jax.tree.map(lambda leaf: 0, item),))(
        jax.tree.map(lambda a: a[None], item)
    )
    assert built == ["ArrayImpl"]


def test_a_trace_sees_the_metadata():
    seen = []

    @jax.jit
    def body(s):
        seen.append((s.rate, s.label, s.extra))
        return s.lanes

    body(Wide(X, 4))
    body(Wide(X, 4, label="wi" + "de"))
    body(Wide(X, 5))
    assert seen == [(4, "wide", None), (5, "wide", None)]


def test_different_metadata_do_not_match():
    with pytest.raises((TypeError, ValueError), match="rate=8"):
        jax.lax.cond(True, lambda s: s, lambda s: replace(s, rate=4), Sponge(X))


def test_replace():
    item = replace(Sponge(X), rate=2)
    assert item.rate == 2
    assert replace(Counted(X), start=9).count == 9
    assert dataclasses.replace(item, rate=3).rate == 3
    with pytest.raises(TypeError, match=r"Sponge has no field 'rat'; it has lanes, rate"):
        replace(item, rat=3)
    with pytest.raises(TypeError, match="instance of a state, not int"):
        replace(3, rate=3)


def test_replace_inside_a_trace_keeps_one_program():
    runs = []

    @jax.jit
    def step(s):
        runs.append(1)
        return replace(s, lanes=s.lanes + 1)

    item = Nested(Sponge(X), (X,))
    step_nested = jax.jit(lambda n: replace(n, sponge=step(n.sponge)))
    for _ in range(3):
        item = step_nested(item)
    assert len(runs) == 1
    assert (item.sponge.lanes == X + 3).all()


def test_asdict_and_match():
    assert dataclasses.asdict(Sponge(None, 4)) == {"lanes": None, "rate": 4}
    match Sponge(None, 4):
        case Sponge(lanes, rate):
            assert (lanes, rate) == (None, 4)


def test_repr():
    shown = repr(Nested(Sponge(X, 4), (X, [jnp.int8(1)])))
    assert shown == "Nested(sponge=Sponge(lanes=f32[4], rate=4), tables=(f32[4], [i8[]]), name='n')"


def test_an_equinox_module_is_data():
    linear = eqx.nn.Linear(2, 2, key=jax.random.key(0))
    mlp = eqx.nn.MLP(2, 2, 4, 1, key=jax.random.key(0))
    item = Nested(Sponge(X), (linear,))
    same(jax.jit(lambda s: s)(item), item)
    assert len(jax.tree.leaves(Sponge(mlp))) == len(jax.tree.leaves(mlp))


def test_a_custom_repr_and_a_custom_getstate_stay():
    @state
    class Own:
        lanes: Any

        def __repr__(self):
            return "mine"

        def __getstate__(self):
            return {"lanes": None}

    assert repr(Own(X)) == "mine"
    assert copy.copy(Own(X)).lanes is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: state(dataclasses.dataclass(type("A", (), {}))), "not frozen"),
        (lambda: state(type("A", (eqx.Module,), {})), "Equinox module"),
        (lambda: state(type("A", (tuple,), {})), "pytree already, as every tuple is"),
        (lambda: state(frozen=False), "no option 'frozen'"),
        (lambda: state(3), "decorates a class, not int"),
    ],
)
def test_misuse_is_a_type_error(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_a_frozen_dataclass_may_be_decorated():
    @state
    @dataclasses.dataclass(frozen=True)
    class Already:
        lanes: Any
        rate: int = dataclasses.field(default=3, metadata={"static": True})

    assert len(jax.tree.leaves(Already(X))) == 1
    same(jax.jit(lambda s: s)(Already(X, 5)), Already(X, 5))


ONE = jnp.ones(2)


def test_a_constructor_takes_and_refuses_what_the_dataclass_does():
    def body():
        class Table:
            rows: object
            size: int = meta()
            type: object = None
            extra: list = dataclasses.field(default_factory=list)
            name: str = meta(default="t", kw_only=True)
            last: object = dataclasses.field(kw_only=True)

        return Table

    plain, made = dataclasses.dataclass(frozen=True)(body()), state(body())
    assert inspect.signature(made) == inspect.signature(plain)
    calls = [
        ((), {}),
        ((ONE,), {"last": ONE}),
        ((ONE, 3), {}),
        ((ONE, 3), {"last": ONE, "other": 1}),
        ((ONE, 3, ONE, [ONE], ONE), {"last": ONE}),
        ((ONE,), {"rows": ONE, "last": ONE, "size": 1}),
    ]
    for args, kwargs in calls:
        with pytest.raises(TypeError) as wanted:
            plain(*args, **kwargs)
        with pytest.raises(TypeError) as found:
            made(*args, **kwargs)
        if "positional arguments but" not in str(wanted.value):  # that one counts what is optional
            assert str(found.value) == str(wanted.value)
    first, second = made(ONE, 3, last=ONE), made(rows=ONE, size=3, last=ONE)
    assert first.extra == []
    assert first.extra is not second.extra
    assert first.rows is first.last is ONE
    assert (first.size, first.type, first.name) == (3, None, "t")


@pytest.mark.parametrize("slots", [False, True])
def test_metadata_seen_before_is_told_from_what_is_equal_to_it(slots):
    @state(slots=slots)
    class Rate:
        x: object
        value: object = meta()
        label: str = meta(default="r")

    def key(value, label="r"):
        return jax.tree_util.tree_structure(Rate(ONE, value, label))

    values = [1, 2, 1.0, True, 0, 0.0, -0.0, float("nan"), None, "1", b"1", (1,), (True,)]
    keys = [key(value) for value in values]
    for _ in range(2):  # the second time all of them were seen before
        for number, value in enumerate(values):
            assert [key(value) == other for other in keys] == [
                number == index for index in range(len(values))
            ]
    for number in range(600):
        assert key(number) == key(number) != key(number + 1)
    assert key(1, "a") != key(1, "b")


def test_a_constructor_of_the_users_is_kept_wherever_its_code_is_from():
    body = """
class Scaled:
    x: object
    rate: int = meta(default=1)
    def __init__(self, x, rate=1):
        object.__setattr__(self, "x", x * 10)
        object.__setattr__(self, "rate", rate + 100)
"""
    scope = {"meta": meta, "__name__": __name__}
    exec(body, scope)
    made = state(scope["Scaled"])(ONE, 5)
    assert (float(made.x[0]), made.rate) == (10.0, 105)


@pytest.mark.parametrize("slots", [False, True])
def test_a_subclass_may_set_a_field_in_a_way_of_its_own(slots):
    @state(slots=slots)
    class Base:
        x: Any
        rate: int = meta(default=8)

    class Doubled(Base):
        @property
        def rate(self):
            return self.__dict__["doubled"]

        @rate.setter
        def rate(self, value):
            self.__dict__["doubled"] = 2 * value

    class Fixed(Base):
        @property
        def rate(self):
            return 0

    assert Doubled(ONE, 3).rate == 6
    with pytest.raises(AttributeError):
        Fixed(ONE, 3)
    assert jax.tree_util.tree_structure(Doubled(ONE, 3)) == jax.tree_util.tree_structure(
        Doubled(ONE, 3)
    )


def test_large_metadata_lives_no_longer_than_its_states():
    import gc
    import weakref

    from fusegate.runtime.registry import HIDDEN

    @state
    class Named:
        x: Any
        name: str = meta()

    keys = []
    for number in range(3):
        made = Named(ONE, f"{number}" * 1000)
        keys.append(weakref.ref(getattr(made, HIDDEN)))
    del made
    gc.collect()
    assert [key() for key in keys] == [None] * 3
