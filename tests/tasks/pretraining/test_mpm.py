from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES, TASKS
from toolkit.criteria import IGNORED, Classes
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.tokenizers.word_level import WordLevelTokenizer
from toolkit.models.interface import Inputs, Sizes
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.pretraining.mpm import (
    MaskedPositionConfig,
    MaskedPositionExamples,
    MaskedPositionsBatch,
)
from toolkit.tasks.task import EncoderFactory

SIZES = Sizes(tokens=12)


def build(name="taco_tiny", objectives="mlm,mpm", **changes):
    torch.manual_seed(0)
    entry, task = ARCHITECTURES[name], TASKS["mpm"]
    encoder = entry.factory(dataclasses.replace(entry.config, **changes), SIZES).eval()
    config = dataclasses.replace(task.config, objectives=objectives)
    return encoder, task.factory(config, encoder, EncoderFactory(None, SIZES))


def batch() -> MaskedPositionsBatch:
    tokens = torch.arange(10).view(2, 5)
    ids = torch.tensor([[0, 1, 2, 3, 4], [0, -1, -1, 3, 4]])
    return MaskedPositionsBatch(
        Inputs(tokens, positions=ids), torch.tensor([3, 6, 7]), torch.tensor([4]),
        torch.tensor([1, 2]), {"mlm": 1.0, "mpm": 2.0}, 1, 10,
    )  # fmt: skip


def test_tokens_are_predicted_from_one_half_and_positions_from_the_other():
    encoder, task = build()
    predictions, states = task.predict(encoder, batch()), encoder(batch().inputs).states
    words, order = task.head, task.position_head
    inner = words.norm(torch.nn.functional.gelu(words.transform(states[0, 3, :108])))
    expected = encoder.token_embedding.weight @ inner + words.bias
    torch.testing.assert_close(predictions["mlm"].logits[0], expected)
    inner = order.norm(torch.nn.functional.gelu(order.transform(states[1, 2, 108:])))
    expected = encoder.position_embedding.weight[:512] @ inner + order.bias
    torch.testing.assert_close(predictions["mpm"].logits[1], expected)
    assert predictions["mpm"].logits.shape == (2, 512)


def test_accuracy_per_objective_counts_the_positions_with_a_target():
    _, task = build()
    metrics = task.metrics(
        {
            "mlm": Classes(torch.eye(12)[[2, 3]], torch.tensor([2, 4])),
            "mpm": Classes(torch.eye(12)[[2, 3, 4]], torch.tensor([2, 3, IGNORED])),
        },
        batch(),
    )
    ratios = {name: (float(r.total), float(r.weight)) for name, r in metrics.items()}
    assert ratios == {"mlm_accuracy": (1.0, 2.0), "mpm_accuracy": (2.0, 2.0)}


def test_max_position_must_be_in_the_table():
    encoder, task = build(max_positions=64)
    config = dataclasses.replace(TASKS["mpm"].config, position_range="full_table")
    with pytest.raises(ToolkitError, match=r"must be below arch.max_positions, but is 511 and"):
        type(task)(config, encoder, EncoderFactory(None, SIZES))


def test_fill_mask_requires_the_objective_mlm():
    (encoder, task), tokenizer = build(objectives="mpm"), object.__new__(WordLevelTokenizer)
    with pytest.raises(
        ToolkitError, match=r"trained with --task.objectives mlm,mpm; this one was trained with mpm"
    ):
        task.fill_mask(encoder, tokenizer, ["a [MASK]"], 5)


@pytest.fixture(scope="module")
def folder(data):
    return DataFolder.open(data)


def make_examples(folder, training=True, row_multiple=1, **options):
    return MaskedPositionExamples(
        MaskedPositionConfig(**options), SplitSource(folder, "train", 1, training, row_multiple)
    )


def halves(batch):
    """Tokens and positions of both halves."""
    rows = batch.sentences
    tokens, ids = batch.inputs.tokens, batch.inputs.positions
    return tokens[:rows], tokens[rows:], ids[:rows], ids[rows:]


def test_masked_tokens_have_true_positions_and_true_tokens_masked_ones(folder):
    batch = make_examples(folder).collate(np.arange(12), 1)
    masked, true, in_order, corrupted = halves(batch)
    words = batch.weights["mlm"]
    assert words == len(batch.token_targets) and batch.weights["mpm"] == len(batch.position_targets)
    assert (in_order == torch.arange(in_order.shape[1])).all()
    first, second = batch.selected.split([len(batch.token_targets), len(batch.position_targets)])
    restored = masked.flatten().clone()
    restored[first] = batch.token_targets
    assert torch.equal(restored, true.flatten())
    order = corrupted.flatten().clone()
    order[second - masked.numel()] = batch.position_targets
    assert torch.equal(order.view_as(corrupted), in_order)
    assert (corrupted == -1).any()


@pytest.mark.parametrize("objective", ["mlm", "mpm"])
def test_single_objective_equals_its_half_of_both(folder, objective):
    both = make_examples(folder).collate(np.arange(6), 2)
    alone = make_examples(folder, objectives=objective).collate(np.arange(6), 2)
    masked, true, _, corrupted = halves(both)
    assert torch.equal(alone.inputs.tokens, masked if objective == "mlm" else true)
    if objective == "mpm":
        assert torch.equal(alone.inputs.positions, corrupted)
    else:
        assert alone.inputs.positions is None
    assert alone.weights == {objective: both.weights[objective]}
    assert both.tokens == 2 * alone.tokens


@pytest.mark.parametrize(
    "option",
    [
        {"position_rate": 0.4},
        {"hidden_position_rate": 0.3},
        {"shuffled_position_rate": 0.2},
        {"position_range": "full_table"},
    ],
)
def test_position_options_change_positions_and_no_token(folder, option):
    default, other = (make_examples(folder, **o).collate(np.arange(30), 1) for o in ({}, option))
    assert torch.equal(halves(default)[0], halves(other)[0])
    assert not torch.equal(halves(default)[3], halves(other)[3])


def test_both_halves_have_the_same_padding_and_token_types(folder):
    inputs = make_examples(folder, pair_mode="electra").collate(np.arange(12), 1).inputs
    for part in (inputs.padding, inputs.segments):
        first, second = part.chunk(2)
        assert part.any() and torch.equal(first, second)


def test_mpm_has_a_table_of_positions_for_encoders_without_one():
    _, task = build("composite_bert_tiny", objectives="mpm")
    assert task.position_head.table.shape == (128, 64)
    assert task.position_head.bias.shape == (128,)
