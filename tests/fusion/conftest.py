"""Traces a function and judges it, without a boundary around it."""

from types import SimpleNamespace

import jax
import pytest

from fusegate.config import Thresholds
from fusegate.judge import fusion
from fusegate.observe.jaxpr import program_facts

MARKER = "fusegate.round_body:"


def subject(name="body", role="round body"):
    return SimpleNamespace(name=name, role=role, defined=None)


@pytest.fixture
def facts_of():
    def facts(fn, *args, **keywords):
        return program_facts(jax.make_jaxpr(fn)(*args), **keywords)

    return facts


@pytest.fixture
def judge(facts_of):
    """Findings of a function as a round body, or under another role, in the order of delivery."""

    def findings(fn, *args, role="round body", reductions=1, allow=(), regions=None, **figures):
        contract = fusion.Contract(reductions, frozenset(allow))
        return fusion.check_program(
            subject(fn.__name__, role),
            contract,
            facts_of(fn, *args),
            Thresholds(**figures),
            regions,
        )

    return findings


@pytest.fixture
def codes(judge):
    def found(*args, **keywords):
        return [finding.code for finding in judge(*args, **keywords)]

    return found


@pytest.fixture
def melted():
    """Wraps a function as a zone's trace does with a melted round body."""

    def wrap(fn, marker):
        def call(*args):
            with jax.named_scope(MARKER + marker):
                return fn(*args)

        return call

    return wrap
