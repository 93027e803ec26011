"""The query phase of a committed matrix: all openings of a tree in one island, at positions of its own.

Opened one by one these are a launch for each level of each opening; as one island they are a launch.
"""

from typing import Any

import frx
import frx.numpy as fnp
from zk_dtypes import koalabear_mont as F
from zorch.pcs.fold import sample_positions
from zorch.testkit.random_field import rand_field

import fusegate
from tests.provers.programs.common import QUICK, merkle, transcript

HEIGHT, WIDTH, QUERIES = 16, 4, 6


@fusegate.state
class Committed:
    """A matrix with the digests of its tree, leaves first."""

    matrix: Any
    layers: Any

    @property
    def root(self):
        """The commitment."""
        return self.layers[-1][0]


def positions_of(root, t):
    """The rows that the root itself asks for."""
    return sample_positions(t.observe(root), HEIGHT, QUERIES)[1]


@fusegate.island(static_argnames=("tree",), max_traces=1, max_compiles=1, compiler_options=QUICK)
def commit(tree, matrix):
    """Hashes the rows and folds them to the root."""
    return Committed(matrix, tree.commit(matrix)[1])


@fusegate.island(static_argnames=("tree",), max_traces=1, max_compiles=1, compiler_options=QUICK)
def answer(tree, committed, t):
    """Opens the tree at every queried row."""
    positions = positions_of(committed.root, t)
    return frx.vmap(lambda i: tree.open(committed.matrix, committed.layers, i))(positions)


@fusegate.island(static_argnames=("tree",), max_traces=1, max_compiles=1, compiler_options=QUICK)
def check(tree, root, openings, t):
    """Whether every opened row leads to the root."""
    rebuilt = frx.vmap(tree.reconstruct_root)(positions_of(root, t), openings)
    return fnp.all(rebuilt == root)


def instance(seed):
    """A commitment, and what it commits to."""
    committed = commit(merkle(), rand_field(seed, (HEIGHT, WIDTH), F))
    return committed.root, committed


def prove(_, committed):
    """Answers the queries."""
    return answer(merkle(), committed, transcript())


def accepts(root, openings):
    """The verdict on openings of this root."""
    return bool(check(merkle(), root, openings, transcript()))


def programs(_, committed):
    """Both programs."""
    yield "commit", commit, (merkle(), committed.matrix)
    yield "answer", answer, (merkle(), committed, transcript())
