import logging

import pytest
import torch

from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.word_level import WordLevelTokenizer
from toolkit.models.interface import Inputs

TEXTS = ["the cat sat on the mat", "the cat", "", "a cat sat", "the"]
WORDS = ["<s>", "<pad>", "</s>", "<unk>", "the", "cat", "sat", "on", "a", "mat"]


def learner(arch="bert_tiny", task="mlm", **options):
    torch.manual_seed(0)
    tokenizer = WordLevelTokenizer.from_symbols(WORDS)
    return build_model(arch, tokenizer=tokenizer, task=task, **options).double().train()


ARCHITECTURES = {
    "bert_tiny": "mlm",
    "composite_bert_tiny": "mlm",
    "convbert_tiny": "mlm",
    "taco_tiny": "mpm",
    "transformer_tiny": "translation",
    "transformer_lm_tiny": "language_modeling",
}


@pytest.mark.parametrize(("arch", "task"), ARCHITECTURES.items())
def test_vectors_depend_neither_on_the_batch_nor_on_the_order(arch, task):
    model = learner(arch, task)
    together = model.embed(TEXTS, batch_size=3)
    assert together.shape == (5, model.encoder.width) and model.training
    for text, vector in zip(TEXTS, together, strict=True):
        torch.testing.assert_close(model.embed([text])[0], vector)


def test_vectors_are_states_of_the_encoder_pooled():
    model = learner().eval()
    inputs = model.encode(TEXTS)
    states = model.encoder(inputs).states
    for pooling, reduce in {
        "mean": lambda x: x.mean(0),
        "max": lambda x: x.max(0).values,
        "first": lambda x: x[0],
        None: lambda x: x,
    }.items():
        found = model.embed(TEXTS, pooling=pooling)
        for vector, row, padding in zip(found, states, inputs.padding, strict=True):
            torch.testing.assert_close(vector, reduce(row[~padding]))


def test_layers_are_those_of_the_encoder():
    model = learner(layers=3).eval()
    every = model.encoder.layer_states(model.encode(["the cat"]))
    expected = torch.stack([states[0].mean(0) for states in every])  # (L, D)
    for layer in (0, 1, 3, -1, -2):
        torch.testing.assert_close(model.embed(["the cat"], layers=layer)[0], expected[layer])
    torch.testing.assert_close(model.embed(["the cat"], layers=[0, -1])[0], expected[[0, -1]])
    [states] = model.embed(["the cat"], layers=[1, 2], pooling=None)
    assert states.shape == (4, 2, model.encoder.width)


def test_encode_adds_the_special_tokens_that_the_task_reads():
    assert learner().encode(["the cat"]).tokens.tolist() == [[0, 4, 5, 2]]
    translation = learner("transformer_tiny", "translation").encode(["the cat", "the"])
    assert translation.tokens.tolist() == [[4, 5, 2], [4, 2, 1]]
    assert translation.padding.tolist() == [[False] * 3, [False, False, True]]
    language_model = learner("transformer_lm_tiny", "language_modeling")
    assert language_model.encode(["the cat"]).tokens.tolist() == [[2, 4, 5]]


def test_long_texts_are_truncated_with_a_warning(caplog):
    model = learner(max_positions=4)
    with caplog.at_level(logging.WARNING):
        assert model.encode(TEXTS).tokens.shape == (5, 4)
    assert "2 of 5 texts were truncated to 4 tokens." in caplog.text


def test_encoder_reads_plain_tensors_like_inputs():
    model = learner().eval()
    inputs = model.encode(TEXTS)
    segments = torch.ones_like(inputs.tokens)
    expected = model.encoder(inputs._replace(segments=segments)).states
    found = model.encoder(inputs.tokens, padding=inputs.padding, segments=segments).states
    assert torch.equal(found, expected)
    assert torch.equal(
        model.encoder(inputs.tokens.int()).states, model.encoder(inputs.tokens).states
    )


TOKENS = torch.tensor([[0, 4, 2]])
WRONG_TENSORS = {
    r"tokens must have the shape \(sentences, tokens\), .* \(3,\). Give .* tokens\[None\]": (
        [TOKENS[0]],
        {},
    ),
    r"tokens must be of dtype int64 or int32, but are float32. Convert": ([TOKENS.float()], {}),
    r"token ids must lie in 0 .. 10 for this model, but range from 5 to 9000": (
        [torch.tensor([[5, 9000]])],
        {},
    ),
    r"padding must be of dtype bool, True at padding, but is int64. From an attention mask": (
        [TOKENS],
        {"padding": TOKENS},
    ),
    r"Inputs have fields for padding, segments": ([Inputs(TOKENS)], {"padding": TOKENS == 0}),
}


@pytest.mark.parametrize(("message", "given"), WRONG_TENSORS.items(), ids=range(len(WRONG_TENSORS)))
def test_encoder_rejects_wrong_tensors(message, given):
    tensors, options = given
    with pytest.raises(ToolkitError, match=message):
        learner().encoder(*tensors, **options)


def test_embed_rejects_other_options():
    model = learner()
    with pytest.raises(ToolkitError, match=r"batch_size must be at least 1, but is 0"):
        model.embed(["the"], batch_size=0)
    with pytest.raises(ToolkitError, match=r"layers must lie in 0 .. 2 for this model, 0 for the"):
        model.embed(["the"], layers=[0, 9])
    with pytest.raises(ToolkitError, match=r"layers must be -1, .* EncoderDecoder"):
        learner("transformer_tiny", "translation").embed(["the"], layers=0)
    words = learner("conv_san", "encode", character_width=0)
    with pytest.raises(ToolkitError, match=r"reads words with their characters, not text"):
        words.embed(["the"])
