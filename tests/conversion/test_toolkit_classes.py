import re

import pytest
import torch
import yaml

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


@pytest.mark.parametrize(
    ("kind", "arch"),
    [
        ("mpm", "taco_tiny"),
        ("mlm", "bert_tiny"),
        ("squad", "bert_tiny"),
        pytest.param("translation", "transformer_tiny", marks=pytest.mark.slow),
    ],
)
def test_code_of_a_model_card_runs(make_learner, export, monkeypatch, capsys, kind, arch):
    learner, _ = make_learner(kind, arch)
    folder = export(learner)[1]
    [code] = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.S)
    native = not (folder / "modeling_toolkit.py").exists()
    assert native == (arch == "bert_tiny") == ("trust_remote_code" not in code)
    monkeypatch.chdir(folder.parent)
    capsys.readouterr()
    exec(code, {})
    assert capsys.readouterr().out


def test_model_card_has_metrics_and_options_of_the_run(trained, tmp_path):
    assert main(["export", str(trained), str(tmp_path / "exported")]) == 0
    card = (tmp_path / "exported" / "README.md").read_text()
    assert "* updates: 10\n" in card and "valid: accuracy" in card
    assert re.search(r"\* toolkit commit: [0-9a-f]{40}", card)
    assert re.search(r"\* data: bin \(fingerprint [0-9a-f]{12}\)", card)
    [options] = re.findall(r"```yaml\n(.*?)```", card, re.S)
    options = yaml.safe_load(options)
    assert options["arch"]["name"] == "composite_bert_tiny" and options["arch"]["width"] == 16
    assert options["data"]["dirs"] == ["bin"]
    assert str(tmp_path) not in card and str(trained) not in card
