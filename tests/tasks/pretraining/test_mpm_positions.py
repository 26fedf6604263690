"""Task mpm with every position term: training, hidden positions, and encoders without ids."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.data.storage.data_folder import DataFolder

SHAPE = {"layers": 1, "width": 16, "heads": 2, "embedding_width": 8}
TERMS = {
    **{name: [name] for name in ("sinusoidal", "rope", "alibi", "t5", "shaw", "xl", "deberta")},
    **{name: [name] for name in ("learned", "fixed", "composite")},
    "rope, t5, fixed": ["rope", "t5", "fixed"],
}
every_term = pytest.mark.parametrize("positions", TERMS.values(), ids=TERMS)


def build(data, positions, arch="bert_tiny", **options):
    torch.manual_seed(0)
    clipped = {"radius": 3} if {*positions} & {"shaw", "fixed", "composite"} else {}
    options = SHAPE | clipped | {"hidden_position_embedding": "learned" in positions} | options
    return build_model(
        arch,
        tokenizer=DataFolder.open(data).tokenizer,
        task="mpm",
        task_options={"tokens_per_sample": 24, "position_rate": 0.4},
        positions=positions,
        **options,
    )


@every_term
def test_positions_train_every_parameter_of_their_term(data, positions):
    learner = build(data, positions)
    names = dict(learner.named_parameters())
    terms = [n for n in names if ".map.terms" in n or "offset_embedding" in n or "changes" in n]
    assert terms or {*positions} & {"learned", "sinusoidal", "rope", "alibi"}
    batch = learner.open_dataset(data, training=False).examples.collate(np.arange(19), 1)
    learner(batch)["mpm"].logits.square().mean().backward()
    assert not [name for name in terms if not names[name].grad.any()]
    assert learner.encoder.takes_positions


@every_term
def test_true_positions_of_hidden_tokens_change_no_state(data, positions):
    learner = build(data, positions).double().eval()
    for parameter in learner.encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    inputs = learner.open_dataset(data).examples.collate(np.arange(12), 1).inputs
    row, slots = find_hidden(inputs.positions)
    order = torch.arange(inputs.tokens.shape[1])
    order[slots] = slots.flip(0)
    tokens = inputs.tokens.clone()
    tokens[row] = tokens[row, order]
    assert not torch.equal(tokens, inputs.tokens)
    states = learner.encoder(inputs).states
    moved = learner.encoder(inputs._replace(tokens=tokens)).states
    torch.testing.assert_close(moved[row], states[row, order], atol=1e-10, rtol=1e-10)


def find_hidden(positions):
    """The row with most hidden positions, and their indices."""
    row = int((positions == -1).sum(1).argmax())
    return row, (positions[row] == -1).nonzero().flatten()


@pytest.mark.parametrize(
    ("arch", "positions", "options", "message"),
    [
        ("bert_tiny", ["none"], {}, "but this one also has convolutions, or no positions at all"),
        ("composite_bert_tiny", ["composite"], {"fixed": False, "dynamic": False}, "at all"),
        ("composite_bert_tiny", ["rope"], {"depthwise": True}, "also has convolutions"),
        ("convbert_tiny", ["rope"], {}, "also has convolutions"),
        ("bert_tiny", ["learned"], {"hidden_position_embedding": False}, "a row for hidden"),
    ],
)
def test_mpm_rejects_encoders_that_do_not_read_position_ids_alone(
    data, arch, positions, options, message
):
    with pytest.raises(ToolkitError, match=message) as error:
        build(data, positions, arch, **options)
    assert "\n" not in str(error.value)
