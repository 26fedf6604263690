"""What an update on a GPU costs does not grow where it should not."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch

from tests.gpu import time_model
from tests.gpu.batches import Shape
from tests.gpu.cases import POSITIONS
from tests.gpu.steps import (
    FULL,
    Case,
    build_trainer,
    count_update,
    fake_device,
    take_step,
)
from tests.gpu.time_model import estimate_update
from toolkit.nn.layers import Residual

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


def estimate_with_and_without_penalty(case):
    """Of products that are not aligned."""
    found = estimate_update(case)
    with patch.object(time_model, "MISALIGNED", time_model.ALIGNED):
        return found.products, estimate_update(case).products


@pytest.mark.parametrize("sentences", [8, 64])
def test_products_with_a_table_of_tokens_are_aligned_for_any_vocabulary(sentences, fake_cuda):
    case = Case(**MASKED, vocabulary=30004, shape=Shape(sentences, 128))
    found, ideal = fake_cuda(estimate_with_and_without_penalty, case)
    assert found < 1.01 * ideal


@pytest.mark.parametrize("task", ["mlm", "mpm"])
@pytest.mark.parametrize("length", [121, 128])
def test_products_of_maps_and_vectors_of_offsets_are_aligned(task, length, fake_cuda):
    shape = Shape(32, length, padding=True)
    case = Case(arch="taco", task=task, options=ONE_LAYER, shape=shape, vocabulary=30004)
    found, ideal = fake_cuda(estimate_with_and_without_penalty, case)
    assert found < 1.01 * ideal


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
