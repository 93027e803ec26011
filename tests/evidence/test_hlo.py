"""The reader of the wire format: what it reads, and what it refuses."""

import contextlib

import jax
import pytest
from hypothesis import given, strategies

from fusegate.runtime import compiled, hlo


def varint(value):
    out = bytearray()
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def encoded(fields):
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


message = strategies.lists(
    strategies.tuples(
        strategies.integers(1, 2**20),
        strategies.integers(0, 2**64 - 1) | strategies.binary(max_size=300),
    )
)


@given(message)
def test_every_message_reads_back(fields):
    assert list(hlo.fields(encoded(fields))) == fields


@given(strategies.binary())
def test_arbitrary_bytes_are_read_or_refused(data):
    with contextlib.suppress(hlo.MalformedProtoError):
        list(hlo.fields(data))


@given(message, strategies.integers(0, 50))
def test_a_cut_message_is_read_in_part_or_refused(fields, cut):
    data = encoded(fields)[:-cut] if cut else encoded(fields)
    try:
        found = list(hlo.fields(data))
    except hlo.MalformedProtoError:
        return
    assert found == fields[: len(found)]


def test_fixed_width_fields_are_bytes():
    assert list(hlo.fields(b"\x0d\x01\x02\x03\x04\x11" + b"\x00" * 8)) == [
        (1, b"\x01\x02\x03\x04"),
        (2, b"\x00" * 8),
    ]


@pytest.mark.parametrize(
    "data", [b"\x80", b"\x0b", b"\x0a\x05ab", b"\x08" + b"\xff" * 10 + b"\x01", b"\x09\x00"]
)
def test_what_is_no_message_is_refused(data):
    with pytest.raises(hlo.MalformedProtoError):
        list(hlo.fields(data))


@pytest.mark.parametrize("data", [b"", encoded([(1, b"name"), (6, 3)])])
def test_a_module_without_an_entry_is_refused(data):
    with pytest.raises(hlo.MalformedProtoError, match="entry"):
        hlo.Module(data)


def test_a_module_names_its_instructions_and_their_lines(here):
    def body(x):
        return (x * x).sum()  # THE SUM

    program = jax.jit(body).lower(jax.ShapeDtypeStruct((64,), "float32")).compile()
    module = compiled.module_of(compiled.executable_of(program))
    assert module.name == "jit_body"
    root = module.root(module.entry)
    assert root is not None
    places = [
        module.location(one)
        for one in module.instructions(module.entry)
        if one.opcode != "parameter"
    ]
    assert (__file__, here.line(__file__, "THE SUM")) in {
        (place.file, place.line) for place in places if place
    }
    with pytest.raises(hlo.MalformedProtoError, match="no computation"):
        module.instructions(-1)


def test_a_backend_without_a_module_is_not_observed():
    assert compiled.module_of(object()) is None
    assert compiled.memory_of(object()) is None
    assert compiled.fingerprint_of(object()) is None


def test_a_backend_that_refuses_its_module_is_not_observed():
    class Refusing:
        def hlo_modules(self):
            raise jax.errors.JaxRuntimeError("UNIMPLEMENTED: GetHloModules is not supported.")

    assert compiled.module_of(Refusing()) is None


def test_what_a_module_holds_is_looked_for_inside_its_kernels():
    program = jax.jit(lambda x: jax.numpy.sin(x) + 1).lower(jax.ShapeDtypeStruct((64,), "float32"))
    module = compiled.module_of(compiled.executable_of(program.compile()))
    assert "sine" not in {one.opcode for one in module.instructions(module.entry)}
    assert module.holds("sine")
    assert not module.holds("custom-call")
