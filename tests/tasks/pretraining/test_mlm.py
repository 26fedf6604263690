from __future__ import annotations

import dataclasses

import torch

from toolkit.common.registry import ARCHITECTURES, TASKS
from toolkit.criteria import IGNORED, Classes
from toolkit.criteria.cross_entropy import CrossEntropy, CrossEntropyConfig
from toolkit.models.interface import Inputs, Sizes
from toolkit.tasks.batch import MaskedBatch
from toolkit.tasks.encoder_factory import EncoderFactory

SIZES = Sizes(tokens=12)


def build():
    torch.manual_seed(0)
    entry, task = ARCHITECTURES["composite_bert_tiny"], TASKS["mlm"]
    config = dataclasses.replace(entry.config, width=16, layers=1, embedding_width=8)
    encoder = entry.factory(config, SIZES).eval()
    return encoder, task.factory(task.config, encoder, EncoderFactory(None, SIZES))


def batch(selected: list[int], targets: list[int]) -> MaskedBatch:
    tokens = torch.randint(12, (2, 5), generator=torch.Generator().manual_seed(1))
    return MaskedBatch(
        Inputs(tokens=tokens), torch.tensor(selected), torch.tensor(targets), {"mlm": 3.0}, 2, 10
    )


def test_mlm_head_reads_the_selected_positions_and_the_embedding_table():
    encoder, task = build()
    b = batch([7, 0], [3, 4])
    logits, targets = task.predict(encoder, b)["mlm"]
    head, states = task.head, encoder(b.inputs).states
    for row, state in enumerate((states[1, 2], states[0, 0])):
        inner = head.norm(torch.nn.functional.gelu(head.transform(state)))
        torch.testing.assert_close(logits[row], encoder.token_embedding.weight @ inner + head.bias)
    assert targets.tolist() == [3, 4]


def test_embedding_table_is_tied_by_use_and_registered_once():
    encoder, task = build()
    table = encoder.token_embedding.weight
    assert not any(parameter is table for parameter in task.parameters())
    task.predict(encoder, batch([7], [3]))["mlm"].logits.sum().backward()
    unseen = [i for i in range(12) if i not in batch([7], [3]).inputs.tokens]
    assert table.grad[unseen].abs().sum() > 0


def test_accuracy_counts_the_positions_with_a_target():
    _, task = build()
    logits = torch.eye(12)[[2, 3, 4, 5]]
    metrics = task.metrics(
        {"mlm": Classes(logits, torch.tensor([2, 3, 9, IGNORED]))}, batch([0], [1])
    )
    assert metrics["accuracy"].total == 2 and metrics["accuracy"].weight == 3


def test_padding_rows_change_no_gradient():
    encoder, task = build()
    cross_entropy = CrossEntropy(CrossEntropyConfig())
    gradients = []
    for b in (batch([7, 2], [3, 4]), batch([7, 2, 0, 0], [3, 4, IGNORED, IGNORED])):
        encoder.zero_grad()
        cross_entropy(task.predict(encoder, b))["mlm"].backward()
        gradients.append(encoder.token_embedding.weight.grad.clone())
    torch.testing.assert_close(*gradients)
