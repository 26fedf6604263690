"""Exports with the toolkit's own classes, and their import."""

import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

from tests.huggingface.conftest import *  # noqa: F403
from toolkit import load_checkpoint
from toolkit.cli.convert import main
from toolkit.conversion import convert
from toolkit.huggingface import to_huggingface
from toolkit.huggingface.tokenizer import ToolkitTokenizer

CASES = [
    ("mpm", "taco_tiny"),
    ("rtd", "composite_bert_tiny"),
    ("glue", "taco_tiny"),
    ("regression", "composite_bert_tiny"),
    ("squad", "composite_bert_tiny"),
    ("pos_tagging", "conv_san_ud"),
    ("subword_tagging", "composite_bert_tiny"),
    ("translation", "transformer_tiny"),
    ("language_modeling", "transformer_lm_tiny"),
]


@pytest.mark.parametrize(("kind", "arch"), CASES)
def test_round_trip_restores_weights_options_and_tokenizer(
    make_learner, export, tmp_path, kind, arch
):
    learner, _ = make_learner(kind, arch)
    _, exported = export(learner)
    assert main(["import", str(exported), str(tmp_path / "back")]) == 0
    back = load_checkpoint(tmp_path / "back")
    before, after = learner.state_dict(), back.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert back.origin[:3] == learner.origin[:3]
    assert back.tokenizer.fingerprint == learner.tokenizer.fingerprint
    assert type(back.tokenizer.target) is type(learner.tokenizer.target)


def test_tokenizer_of_whole_words_is_exported_without_a_model(make_learner, tmp_path):
    learner, _ = make_learner("pos_tagging", "conv_san_ud")
    convert.export_tokenizer(tmp_path, learner, to_huggingface(learner))
    ids = ToolkitTokenizer.from_pretrained(tmp_path)("the cat")["input_ids"]
    assert ids == learner.tokenizer.encode("the cat")


def test_auto_classes_open_an_export(make_learner, hf_inputs, export):
    learner, batch = make_learner("mlm", "composite_bert_tiny")
    _, exported = export(learner)
    inputs = hf_inputs(batch.inputs)
    with torch.no_grad():
        expected = to_huggingface(learner)(**inputs).logits
        assert torch.equal(
            AutoModelForMaskedLM.from_pretrained(exported)(**inputs).logits, expected
        )
        states = AutoModel.from_pretrained(exported)(**inputs).last_hidden_state
    assert torch.equal(states, learner.encoder(batch.inputs).states)
    ids = AutoTokenizer.from_pretrained(exported)("the cat sat")["input_ids"]
    vocabulary = learner.tokenizer.vocabulary
    assert ids == [vocabulary.cls, *learner.tokenizer.encode("the cat sat"), vocabulary.sep]
