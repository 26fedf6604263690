"""Tables on Triton kernels: registers, errors in the interpreter, and what attention saves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from unittest.mock import patch

if TYPE_CHECKING:
    from tests.gpu.launches import LaunchCounter
    from tests.gpu.steps import Case

Row = Sequence[object]
WORKLOADS = [("composite_bert_small", 1024, 128), ("composite_bert", 512, 128)]


def usage() -> Iterator[Row]:
    """Of every variant for sm_90, as stored for the installed version of Triton."""
    import triton

    from tests.gpu.stored_usage import load_bounds

    yield f"kernel, Triton {triton.__version__}", "registers", "spilled bytes"
    for name, row in load_bounds()[triton.__version__].items():
        yield name, *row


def errors() -> Iterator[Row]:
    """Greatest errors of attention's context and gradients over all calls of the grid."""
    from tests.gpu.attention_cases import compare
    from tests.gpu.attention_dropout import compare_dropped
    from tests.gpu.attention_grid import DROPPED, MORE, MORE_DROPPED, QUICK
    from tests.gpu.conftest import interpret, own_process

    found = defaultdict(list)
    with own_process(interpret) as run:
        for case in (*QUICK, *MORE):
            found[case.dtype].append(max(run(compare, case)))
        for case in (*DROPPED, *MORE_DROPPED):
            found[case.dtype].append(max(run(compare_dropped, case)))
    yield "format", "calls", "greatest error"
    for dtype, values in found.items():
        yield dtype, len(values), f"{max(values):.2g}"


def savings() -> Iterator[Row]:
    """Launches and bytes of an update with attention in one kernel, and without."""
    from tests.gpu.batches import Shape
    from tests.gpu.steps import Case

    yield "workload", "attention", "launches per layer", "kB per layer and token"
    for arch, sentences, length in WORKLOADS:
        case = Case(arch=arch, task="mlm", shape=Shape(sentences, length), vocabulary=30004)
        for kernel in (True, False):
            launches, size = measure_layer(case, kernel=kernel)
            kilobytes = size / sentences / length / 1e3
            name = "one kernel" if kernel else "plain"
            yield f"{arch}, {sentences} x {length}", name, launches, f"{kilobytes:.1f}"


def measure_layer(case: Case, *, kernel: bool) -> tuple[int, int]:
    """Launches and bytes of one layer, forward and backward: those that a second one adds."""
    one, two = (count(case, layers, kernel=kernel) for layers in (1, 2))
    return two[0] - one[0], two[1] - one[1]


def count(case: Case, layers: int, *, kernel: bool) -> tuple[int, int]:
    import dataclasses

    from tests.gpu import steps

    with steps.fake_device():
        trainer = steps.build_trainer(dataclasses.replace(case, options={"layers": layers}))
        encoder = trainer.learner.encoder
        with patch.object(encoder, "uses_packing", kernel):
            counter: LaunchCounter = steps.take_step(trainer, case.task, case.shape)
    phases = "forward", "backward"
    launches, size = counter.by_phase(counter.launches), counter.by_phase(counter.bytes)
    return sum(launches[p] for p in phases), sum(size[p] for p in phases)
