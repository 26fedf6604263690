"""Exports with the toolkit's own classes, and their import."""

import pytest
import torch

from tests.huggingface.conftest import *  # noqa: F403
from toolkit import load_checkpoint
from toolkit.cli.convert import main

CASES = [
    ("mpm", "taco_tiny"),
    ("glue", "taco_tiny"),
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
