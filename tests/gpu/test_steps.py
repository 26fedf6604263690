"""Updates on a fake GPU: nothing waits, launches are as stored, and graphs hold all of them."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec

import pytest
import torch

from tests.gpu.batches import Shape
from tests.gpu.cases import OPTIMIZERS, POSITIONS, QUICK, SWEEP
from tests.gpu.conftest import NO_TRITON
from tests.gpu.graphed_steps import take_graphed_step
from tests.gpu.launches import LaunchCounter, name_of, tensors
from tests.gpu.steps import (
    FULL,
    Case,
    build_trainer,
    count_update,
    fake_device,
    take_step,
)
from tests.gpu.stored_counts import STEPS, base_version, load_counts, to_row
from toolkit.nn.layers import Residual
from toolkit.training.flop_counter import FORMULAS


def check_update(case: Case, fake_cuda) -> None:
    counts = fake_cuda(count_update, case)
    assert not counts.waits
    stored = load_counts(STEPS)
    if base_version(torch.__version__) != stored["torch"]:
        pytest.skip(f"counts are stored for torch {stored['torch']}")
    if find_spec("triton") is None:
        pytest.skip(NO_TRITON)
    assert to_row(counts.launches, counts.bytes) == stored["cases"][case.name], (
        "launches or bytes differ: if that is meant, run python -m tests.gpu.stored_counts"
    )


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.name)
def test_an_update_on_a_gpu_waits_for_nothing_and_launches_as_before(case, fake_cuda):
    check_update(case, fake_cuda)


@pytest.mark.slow
@pytest.mark.parametrize("case", SWEEP, ids=lambda case: case.name)
def test_every_kind_of_update_on_a_gpu_waits_for_nothing(case, fake_cuda):
    check_update(case, fake_cuda)


ADAM = ("adam", "adamw")
CASES = [case for case in QUICK if case.optimizer in ADAM]
MAX_LAUNCHES = 40
"""Copies of the batch and of numbers, and of losses."""


def summarize(case):
    """Plain values, which another process can send."""
    step = take_graphed_step(case)
    on_host = [line for region in step.regions for line in (*region.on_host, *region.waits)]
    return (
        [region.launches.total() for region in step.regions],
        on_host,
        step.outside.launches.total(),
        step.outside.waits,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_graphs_hold_the_update_and_nothing_of_the_host(case, fake_cuda):
    captured, on_host, launches, waits = fake_cuda(summarize, case)
    assert len(captured) == 2 and min(captured) > 10, "gradient and update"
    assert not on_host
    assert launches < MAX_LAUNCHES and not waits


@pytest.mark.parametrize("optimizer", sorted({*OPTIMIZERS} - {*ADAM}))
def test_other_optimizers_step_without_a_graph(optimizer, fake_cuda):
    case = Case(arch="bert_tiny", task="mlm", optimizer=optimizer, options={"layers": 1})
    captured, on_host, _, waits = fake_cuda(summarize, case)
    assert len(captured) == 1 and not on_host and not waits


ONE_LAYER = {"layers": 1}
MASKED = {"arch": "bert_tiny", "task": "mlm", "options": ONE_LAYER}


def count_launches(fake_cuda, case):
    launches = fake_cuda(count_update, case).launches
    return launches["forward"], launches["backward"]


@pytest.mark.parametrize("arch", POSITIONS)
def test_launches_do_not_grow_with_the_number_of_sentences(arch, fake_cuda):
    options = {**ONE_LAYER, **POSITIONS[arch]}
    small, large = (
        Case(arch=arch, task="mpm", options=options, shape=Shape(sentences, 16, padding=True))
        for sentences in (2, 8)
    )
    assert count_launches(fake_cuda, small) == count_launches(fake_cuda, large)


def test_conversions_of_weights_do_not_grow_with_the_number_of_layers(fake_cuda):
    one, three = (fake_cuda(count_conversions, layers) for layers in (1, 3))
    assert one == three


def count_conversions(layers):
    with fake_device():
        trainer = build_trainer(Case(arch="bert_tiny", task="mlm", options={"layers": layers}))
        launches = take_step(trainer, "mlm", FULL).launches
    return sum(n for (_, name), n in launches.items() if name in ("_to_copy", "_foreach_copy_"))


def test_launches_do_not_grow_with_the_number_of_sampled_tokens(fake_cuda):
    small, large = (
        Case(arch="bert_tiny", task="rtd", options=ONE_LAYER, shape=Shape(sentences, 16))
        for sentences in (4, 64)
    )
    assert count_launches(fake_cuda, small) == count_launches(fake_cuda, large)


def test_launches_do_not_grow_with_the_rows_of_a_chunk_of_the_loss(fake_cuda):
    small, large = (
        Case(
            arch="bert_tiny",
            task="mlm",
            options=ONE_LAYER,
            vocabulary=30004,
            shape=Shape(sentences, 128),
        )
        for sentences in (64, 128)
    )
    assert count_launches(fake_cuda, small) == count_launches(fake_cuda, large)


def test_scores_are_computed_for_the_offsets_of_the_batch_and_not_of_the_table(fake_cuda):
    small, large = (
        Case(arch="taco_tiny", task="mpm", options={"layers": 1, "max_positions": positions})
        for positions in (32, 512)
    )
    counts = [fake_cuda(count_update, case).bytes["forward"] for case in (small, large)]
    assert counts[1] < 1.2 * counts[0]


class ProductCounter(LaunchCounter):
    """FLOPs of products by whether all rows begin at multiples of 16 bytes.

    A GPU takes about ten times as long for products that are not aligned.
    """

    def __init__(self):
        super().__init__()
        self.flops = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = super().__torch_dispatch__(func, types, args, kwargs)
        formula = FORMULAS.get(func.overloadpacket)
        if formula and "attention" not in name_of(func):
            matrices = [t for t in (*tensors((args, kwargs)), *tensors(out)) if t.dim() > 1]
            flops = formula(*args, **(kwargs or {}), out_val=out)
            self.flops[all(map(is_aligned, matrices))] += flops
        return out


def is_aligned(matrix):
    """Whether all rows begin at multiples of 16 bytes, if the matrix does."""
    sides = zip(matrix.stride(), matrix.shape, strict=True)
    strides = [stride for stride, length in sides if length > 1 and stride > 1]
    return all(stride * matrix.element_size() % 16 == 0 for stride in strides)


def share_of_misaligned_products(case):
    with fake_device():
        flops = take_step(build_trainer(case), case.task, case.shape, ProductCounter).flops
    return flops[False] / flops.total()


@pytest.mark.parametrize("sentences", [8, 64])
def test_products_with_a_table_of_tokens_are_aligned_for_any_vocabulary(sentences, fake_cuda):
    case = Case(**MASKED, vocabulary=30004, shape=Shape(sentences, 128))
    assert fake_cuda(share_of_misaligned_products, case) < 0.001


@pytest.mark.parametrize("task", ["mlm", "mpm"])
@pytest.mark.parametrize("length", [121, 128])
def test_products_of_maps_and_vectors_of_offsets_are_aligned(task, length, fake_cuda):
    shape = Shape(32, length, padding=True)
    case = Case(arch="taco", task=task, options=ONE_LAYER, shape=shape, vocabulary=30004)
    assert fake_cuda(share_of_misaligned_products, case) < 0.03


def test_sublayers_return_states_in_the_precision_of_autocast(fake_cuda):
    """So do CPUs; CUDA's own layer norm would return fp32."""
    assert fake_cuda(residual_dtypes) == {"bf16": torch.bfloat16, "fp32": torch.float32}


def residual_dtypes():
    found = {}
    with fake_device():
        for precision in ("bf16", "fp32"):
            trainer = build_trainer(Case(**MASKED, precision=precision))
            layer = next(m for m in trainer.learner.modules() if isinstance(m, Residual))
            layer.register_forward_hook(lambda *args, p=precision: found.update({p: args[2].dtype}))
            take_step(trainer, "mlm", FULL)
    return found
