"""Compiled layers on a fake GPU: no graph breaks, and a bounded number of graphs."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

from tests.gpu.compilation import CASES, SHORT_STREAM, Compilation, compile_run, planned_stream
from tests.gpu.conftest import NO_TRITON
from tests.gpu.steps import Case
from tests.gpu.stored_counts import GRAPHS, base_version, load_counts

KNOWN_AFTER = 12
"""Batches of the planned stream after which training meets nothing new."""


def compile_stream(case: Case, stream, fake_cuda) -> Compilation:
    if case.convolves and find_spec("triton") is None:
        pytest.skip(NO_TRITON)
    found = fake_cuda(compile_run, case, stream)
    assert found.breaks == {}
    assert found.exceeded == 0, "Dynamo made as many graphs as it may, and went on without them"
    return found


@pytest.mark.parametrize(
    "case",
    [CASES[0], *(pytest.param(case, marks=pytest.mark.slow) for case in CASES[1:])],
    ids=lambda case: case.name,
)
def test_layers_compile_without_breaks_to_as_many_graphs_as_before(case, fake_cuda):
    found, stored = compile_stream(case, SHORT_STREAM, fake_cuda), load_counts(GRAPHS)
    if base_version(torch.__version__) != stored["torch"]:
        pytest.skip(f"counts are stored for torch {stored['torch']}")
    assert [sum(found.graphs)] == stored["cases"][case.name], (
        "the number of graphs differs: if that is meant, run python -m tests.gpu.stored_counts"
    )


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES[:2], ids=lambda case: case.name)
def test_batches_of_new_lengths_make_no_new_graphs(case, fake_cuda):
    """Fifty of training, the last one short, and ten of a validation."""
    stream = planned_stream()
    graphs = compile_stream(case, stream, fake_cuda).graphs
    assert not any(graphs[KNOWN_AFTER : len(stream.training)])
