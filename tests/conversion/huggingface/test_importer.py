"""Imported models give the outputs of Transformers with the same weights."""

from __future__ import annotations

import pytest
import torch

from tests.conversion.conftest import SHAPE, run_alone
from toolkit import load_checkpoint
from toolkit.checkpoints.load import read_config
from toolkit.common.registry import TASKS
from toolkit.config.run import ComponentConfig
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import Inputs
from toolkit.tasks.build import build_learner
from toolkit.training.resume import load_finetune_weights

TRUNKS = {
    "bert": ("BertModel", {}),
    "bert, another epsilon": ("BertModel", {"layer_norm_eps": 1e-3}),
    "electra": ("ElectraModel", {"embedding_size": 12}),
    "electra, as wide": ("ElectraModel", {"embedding_size": 24}),
    "convbert": ("ConvBertModel", {"embedding_size": 12}),
    "convbert, groups": ("ConvBertModel", {"embedding_size": 24, "num_groups": 2}),
    "convbert, ratio": ("ConvBertModel", {"embedding_size": 12, "head_ratio": 4}),
    "convbert, one head": ("ConvBertModel", {"embedding_size": 12, "num_attention_heads": 1}),
    "deberta": ("DebertaV2Model", {}),
    "deberta, token types": ("DebertaV2Model", {"type_vocab_size": 2}),
    "deberta, clipped": ("DebertaV2Model", {"max_position_embeddings": 6}),
}


def batch():
    torch.manual_seed(1)
    tokens, segments = torch.randint(SHAPE["vocab_size"], (3, 11)), torch.randint(2, (3, 11))
    padding = torch.arange(11) >= torch.tensor([11, 6, 9])[:, None]
    inputs = Inputs(tokens=tokens, segments=segments, padding=padding)
    hf_inputs = {
        "input_ids": tokens,
        "token_type_ids": segments,
        "attention_mask": (~padding).long(),
    }
    return inputs, hf_inputs


@pytest.mark.parametrize("case", TRUNKS)
def test_imported_states_equal_transformers(saved, converted, case):
    name, settings = TRUNKS[case]
    model, folder = saved(name, **settings)
    learner = load_checkpoint(converted(folder))
    inputs, hf_inputs = batch()
    want = run_alone(model, hf_inputs, "last_hidden_state")
    with torch.no_grad():
        got = learner.encoder(inputs).states
    assert want.std() > 0.1
    torch.testing.assert_close(got[~inputs.padding], want[~inputs.padding], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("BertForMaskedLM", {}),
        ("BertForPreTraining", {"layer_norm_eps": 1e-3}),
        ("ElectraForMaskedLM", {"embedding_size": 12}),
        ("ConvBertForMaskedLM", {"embedding_size": 12}),
        ("DebertaV2ForMaskedLM", {}),
        ("DebertaV2ForMaskedLM", {"legacy": False}),
    ],
)
def test_imported_masked_token_scores_equal_transformers(saved, converted, name, settings):
    model, folder = saved(name, **settings)
    learner = load_checkpoint(converted(folder))
    inputs, hf_inputs = batch()
    with torch.no_grad():
        output = "prediction_logits" if "PreTraining" in name else "logits"
        want = run_alone(model, hf_inputs, output)
        states = learner.encoder(inputs).states.flatten(0, 1)
        got = learner.task.head(states, learner.encoder.token_embedding.weight).view(want.shape)
    torch.testing.assert_close(got[~inputs.padding], want[~inputs.padding], atol=1e-5, rtol=1e-5)


def test_imported_discriminator_continues_with_rtd(saved, converted):
    model, folder = saved("ElectraForPreTraining", embedding_size=12)
    checkpoint = converted(folder)
    run, sizes = read_config(checkpoint)
    learner = build_learner(run.arch, ComponentConfig("rtd", TASKS["rtd"].config), sizes).eval()
    messages = []
    load_finetune_weights(str(checkpoint), learner, Tokenizer.load(checkpoint), messages.append)
    inputs, hf_inputs = batch()
    with torch.no_grad():
        got = learner.task.head(learner.encoder(inputs).states.flatten(0, 1))
        want = model(**hf_inputs).logits
    kept = ~inputs.padding
    torch.testing.assert_close(got.view(want.shape)[kept], want[kept], atol=1e-5, rtol=1e-5)
    assert "checkpoint has none: task.generator" in messages[1] and "unknown" not in "".join(
        messages
    )


@pytest.mark.parametrize("case", ["bert", "electra"])
def test_embedded_texts_equal_transformers_hidden_states(saved, converted, case):
    transformers = pytest.importorskip("transformers")
    name, settings = TRUNKS[case]
    model, folder = saved(name, **settings)
    learner = load_checkpoint(converted(folder))
    texts = ["the cat sat on a mat.", "cats", "the dog runs, the cat sat"]
    tokenizer = transformers.BertTokenizer(str(folder / "vocab.txt"))
    encoded = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = torch.stack(model(**encoded, output_hidden_states=True).hidden_states, 2)
    layers = range(hidden.shape[2])
    states = learner.embed(texts, layers=layers, pooling=None, batch_size=2)
    for found, want, mask in zip(states, hidden, encoded["attention_mask"], strict=True):
        torch.testing.assert_close(found, want[mask == 1], atol=1e-5, rtol=1e-5)
    mask = encoded["attention_mask"][:, :, None]
    mean = (hidden[:, :, -1] * mask).sum(1) / mask.sum(1)
    torch.testing.assert_close(learner.embed(texts), mean, atol=1e-5, rtol=1e-5)
