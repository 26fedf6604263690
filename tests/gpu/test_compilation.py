"""Compiled parts on a fake GPU: no graph breaks, and no new graphs for new shapes."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

from tests.gpu.compilation import (
    RUNS,
    Compilation,
    Stream,
    compile_run,
)
from tests.gpu.conftest import NO_TRITON
from tests.gpu.steps import Case
from tests.gpu.stored_counts import GRAPHS, base_version, load_counts

QUICK = RUNS[0][0].name


def compile_stream(case: Case, stream: Stream, fake_cuda) -> Compilation:
    if find_spec("triton") is None:
        pytest.skip(NO_TRITON)
    found = fake_cuda(compile_run, case, stream)
    assert found.breaks == {}
    assert found.exceeded == 0, "Dynamo made as many graphs as it may, and went on without them"
    return found


def first_of_their_kind(stream: Stream) -> set[int]:
    """Numbers of the first batches of training and of validation, with padding and without."""
    kinds = [
        (phase, shape.padding)
        for phase in ("training", "validation")
        for shape in getattr(stream, phase)
    ]
    return {kinds.index(kind) for kind in kinds}


def check_new_graphs(found: Compilation, stream: Stream) -> None:
    made = {number for number, graphs in enumerate(found.graphs) if graphs}
    assert made <= first_of_their_kind(stream), "a new shape makes new graphs"


@pytest.mark.parametrize(
    ("case", "stream"),
    [
        pytest.param(*run, id=run[0].name, marks=[] if run[0].name == QUICK else pytest.mark.slow)
        for run in RUNS
    ],
)
def test_parts_compile_without_breaks_to_as_many_graphs_as_before(case, stream, fake_cuda):
    found, stored = compile_stream(case, stream, fake_cuda), load_counts(GRAPHS)
    check_new_graphs(found, stream)
    if base_version(torch.__version__) != stored["torch"]:
        pytest.skip(f"counts are stored for torch {stored['torch']}")
    assert [sum(found.graphs)] == stored["cases"][case.name], (
        "the number of graphs differs: if that is meant, run python -m tests.gpu.stored_counts"
    )
