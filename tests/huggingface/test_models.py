"""Outputs in Transformers equal those of the learner to the last bit."""

import pytest
import torch

from toolkit.huggingface import ToolkitModel, to_huggingface

ENCODERS = ["bert_tiny", "composite_bert_tiny", "convbert_tiny", "taco_tiny"]


@pytest.mark.parametrize("arch", ["composite_bert_tiny", "taco_tiny"])
@pytest.mark.parametrize("kind", ["glue", "regression", "multiple_choice", "squad"])
def test_scores_of_heads_equal_the_learners(make_learner, hf_inputs, kind, arch):
    learner, batch = make_learner(kind, arch)
    model, inputs = to_huggingface(learner), hf_inputs(batch.inputs)
    with torch.no_grad():
        expected = [prediction[0] for prediction in learner(batch).values()]
        if kind == "multiple_choice":
            inputs = {name: t.unflatten(0, batch.option_rows.shape) for name, t in inputs.items()}
        output = model(**inputs)
    found = [output.start_logits, output.end_logits] if kind == "squad" else [output.logits]
    for scores, logits in zip(expected, found, strict=True):
        assert torch.equal(logits.view_as(scores), scores)


@pytest.mark.parametrize(
    ("task", "arch"),
    [("mpm", "taco_tiny"), ("rtd", "convbert_tiny"), *(("mlm", arch) for arch in ENCODERS)],
)
def test_scores_of_tokens_equal_the_learners(make_learner, hf_inputs, task, arch):
    learner, batch = make_learner(task, arch)
    inputs = batch.inputs
    with torch.no_grad():
        part = learner.task.generator if task == "rtd" else learner.task
        encoder = part.encoder if task == "rtd" else learner.encoder
        states = encoder(inputs).states.flatten(0, 1)
        expected = part.head(states, encoder.token_embedding.weight)
        model = to_huggingface(learner, component="generator" if task == "rtd" else None)
        assert torch.equal(model(**hf_inputs(inputs)).logits.flatten(0, 1), expected)
        if task == "rtd":
            model = to_huggingface(learner)
            expected = learner.task.head(learner.encoder(inputs).states.flatten(0, 1))
            assert torch.equal(model(**hf_inputs(inputs)).logits.flatten(), expected)


@pytest.mark.parametrize(
    ("kind", "arch"), [("pos_tagging", "conv_san_ud"), ("subword_tagging", "taco_tiny")]
)
def test_scores_of_tags_equal_the_learners(make_learner, hf_inputs, kind, arch):
    learner, batch = make_learner(kind, arch)
    model = to_huggingface(learner)
    with torch.no_grad():
        expected = learner(batch)["tag"][0]
        every = batch._replace(selected=torch.arange(batch.inputs.tokens.numel()))
        logits = model(**hf_inputs(batch.inputs)).logits.flatten(0, 1)
        assert torch.equal(logits, learner(every)["tag"][0])
    torch.testing.assert_close(logits[batch.selected], expected)


def test_words_are_padded_to_the_only_length_of_the_encoder(make_learner, hf_inputs):
    learner, batch = make_learner("pos_tagging", "conv_san_ud")
    model, inputs = to_huggingface(learner), hf_inputs(batch.inputs)
    length = int(inputs["attention_mask"].sum(1).max())
    with torch.no_grad():
        whole = model(**inputs).logits[:, :length]
        assert torch.equal(model(**{n: t[:, :length] for n, t in inputs.items()}).logits, whole)


def test_scores_of_translations_equal_the_learners(make_learner, hf_inputs):
    learner, batch = make_learner("translation", "transformer_tiny")
    model, encoder = to_huggingface(learner), learner.encoder
    with torch.no_grad():
        states = encoder.decode(batch.previous, encoder(batch.inputs), batch.inputs.padding)
        expected = encoder.scores(states.flatten(0, 1))
        output = model(**hf_inputs(batch.inputs), decoder_input_ids=batch.previous)
    assert torch.equal(output.logits.flatten(0, 1), expected)


def test_scores_of_language_models_equal_the_learners(make_learner):
    learner, batch = make_learner("language_modeling", "transformer_lm_tiny")
    with torch.no_grad():
        expected = learner.encoder.scores(learner.encoder(batch.inputs).states.flatten(0, 1))
        logits = to_huggingface(learner)(input_ids=batch.inputs.tokens).logits
    assert torch.equal(logits.flatten(0, 1), expected)


@pytest.mark.parametrize("arch", ["composite_bert_tiny", "taco_tiny"])
def test_states_of_layers_are_those_of_the_encoder(make_learner, hf_inputs, arch):
    learner, batch = make_learner("mlm", arch)
    encoder = ToolkitModel(to_huggingface(learner).config)
    encoder.encoder.load_state_dict(learner.encoder.state_dict())
    with torch.no_grad():
        output = encoder.eval()(**hf_inputs(batch.inputs), output_hidden_states=True)
        assert torch.equal(output.last_hidden_state, learner.encoder(batch.inputs).states)
    assert len(output.hidden_states) == 3
