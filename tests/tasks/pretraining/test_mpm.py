from __future__ import annotations

import dataclasses

import pytest
import torch

from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES, TASKS
from toolkit.criteria import IGNORED, Classes
from toolkit.data.tokenizers.word_level import WordLevelTokenizer
from toolkit.models.interface import Inputs, Sizes
from toolkit.tasks.encoder_factory import EncoderFactory
from toolkit.tasks.pretraining.position_examples import MaskedPositionsBatch

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


def test_both_heads_read_both_streams_on_request():
    encoder, task = build(head_features="concat")
    assert task.head.transform.in_features == task.position_head.transform.in_features == 128
    assert set(task.predict(encoder, batch())) == {"mlm", "mpm"}


def test_bert_with_a_hidden_position_embedding_supports_mpm():
    encoder, task = build("bert_tiny", hidden_position_embedding=True)
    assert task.predict(encoder, batch())["mpm"].logits.shape == (2, 128)


@pytest.mark.parametrize("objectives", ["mlm", "mpm"])
def test_single_objective_has_one_head(objectives):
    _, task = build(objectives=objectives)
    other = "position_head" if objectives == "mlm" else "head"
    assert list(task.coefficients) == [objectives] and not hasattr(task, other)


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


def test_mpm_requires_a_row_for_hidden_positions_in_a_table():
    with pytest.raises(ToolkitError, match="a row for hidden positions in the table of positions"):
        build("bert_tiny")


def test_mpm_has_a_table_of_positions_for_encoders_without_one():
    _, task = build("composite_bert_tiny", objectives="mpm")
    assert task.position_head.table.shape == (128, 64)
    assert task.position_head.bias.shape == (128,)


def test_mpm_rejects_encoders_with_convolutions():
    with pytest.raises(ToolkitError, match="sees positions only through position ids"):
        build("composite_bert_tiny", depthwise=True)


def test_max_position_must_be_in_the_table():
    encoder, task = build(max_positions=64)
    config = dataclasses.replace(TASKS["mpm"].config, position_range="full_table")
    with pytest.raises(ToolkitError, match=r"must be below arch.max_positions, but is 511 and"):
        type(task)(config, encoder, EncoderFactory(None, SIZES))


def test_hidden_position_embedding_requires_a_position_table():
    with pytest.raises(ToolkitError, match=r"arch\.hidden_position_embedding requires a table"):
        build_model("composite_bert_tiny", vocabulary_size=12, hidden_position_embedding=True)


def test_fill_mask_requires_the_objective_mlm():
    (encoder, task), tokenizer = build(objectives="mpm"), object.__new__(WordLevelTokenizer)
    with pytest.raises(
        ToolkitError, match=r"trained with --task.objectives mlm,mpm; this one was trained with mpm"
    ):
        task.fill_mask(encoder, tokenizer, ["a [MASK]"], 5)
