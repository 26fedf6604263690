"""With the same weights ours and theirs give the same numbers."""

from __future__ import annotations

import pytest
import torch

from toolkit.models.inputs import Inputs
from toolkit.training.checkpoint import load_checkpoint

from .conftest import SHAPE

TRUNKS = {
    "bert": ("BertModel", {}),
    "bert, another epsilon": ("BertModel", {"layer_norm_eps": 1e-3}),
    "electra": ("ElectraModel", {"embedding_size": 12}),
    "electra, as wide": ("ElectraModel", {"embedding_size": 24}),
    "convbert": ("ConvBertModel", {"embedding_size": 12}),
    "convbert, groups": ("ConvBertModel", {"embedding_size": 24, "num_groups": 2}),
    "convbert, ratio": ("ConvBertModel", {"embedding_size": 12, "head_ratio": 4}),
    "convbert, one head": ("ConvBertModel", {"embedding_size": 12, "num_attention_heads": 1}),
}


def batch():
    torch.manual_seed(1)
    tokens, segments = torch.randint(SHAPE["vocab_size"], (3, 11)), torch.randint(2, (3, 11))
    padding = torch.arange(11) >= torch.tensor([11, 6, 9])[:, None]
    ours = Inputs(tokens=tokens, segments=segments, padding=padding)
    theirs = {"input_ids": tokens, "token_type_ids": segments, "attention_mask": (~padding).long()}
    return ours, theirs


@pytest.mark.parametrize("case", TRUNKS)
def test_states_equal_those_of_the_model_it_was(saved, converted, case):
    name, settings = TRUNKS[case]
    model, folder = saved(name, **settings)
    learner = load_checkpoint(converted(folder))
    ours, theirs = batch()
    with torch.no_grad():
        want = model(**theirs).last_hidden_state
        got = learner.encoder(ours).states
    assert want.std() > 0.1
    torch.testing.assert_close(got[~ours.padding], want[~ours.padding], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("BertForMaskedLM", {}),
        ("BertForPreTraining", {"layer_norm_eps": 1e-3}),
        ("ElectraForMaskedLM", {"embedding_size": 12}),
        ("ConvBertForMaskedLM", {"embedding_size": 12}),
    ],
)
def test_scores_of_masked_tokens_equal_those_of_the_model_it_was(saved, converted, name, settings):
    model, folder = saved(name, **settings)
    learner = load_checkpoint(converted(folder))
    ours, theirs = batch()
    with torch.no_grad():
        found = model(**theirs)
        want = found.prediction_logits if "PreTraining" in name else found.logits
        states = learner.encoder(ours).states.flatten(0, 1)
        got = learner.task.head(states, learner.encoder.words.weight).view(want.shape)
    torch.testing.assert_close(got[~ours.padding], want[~ours.padding], atol=1e-5, rtol=1e-5)
