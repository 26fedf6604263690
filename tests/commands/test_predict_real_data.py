"""Lines of real data have the predictions of toolkit-validate."""

import json

import pytest

from toolkit import preprocess
from toolkit.cli.predict import main as predict
from toolkit.cli.validate import main as validate
from toolkit.config.load import compose
from toolkit.training.run import run

TINY = {
    "arch": "bert_tiny", "arch.layers": 1, "task.tokens_per_sample": 64, "batch_size": 8,
    "num_workers": 0, "max_update": 2, "lr": 1e-3, "precision": "fp32", "device": "cpu",
    "valid_subset": "", "log_interval": 100,
}  # fmt: skip


@pytest.fixture
def both(tmp_path, monkeypatch):
    """Trains on files; returns the texts of the predictions of both commands for the items."""
    monkeypatch.chdir(tmp_path)

    def call(task, items, **files):
        preprocess(**files, vocab_size=500, destdir="data", workers=1)
        run(compose({**TINY, "task": task, "data.dirs": ["data"], "save_dir": "run"}))
        words = ["--path", "run", "--precision", "fp32"]
        assert validate(["data", *words, "--predictions", "validated"]) == 0
        assert predict([*words, "--input", items, "--output", "predicted.jsonl"]) == 0
        with open("validated") as validated, open("predicted.jsonl") as predicted:
            return validated.read(), [json.loads(line) for line in predicted]

    return call


@pytest.mark.slow
@pytest.mark.realdata
def test_rows_of_glue(both, real_data):
    path = str(real_data / "glue_data" / "STS-B" / "dev.tsv")
    files = {"format": "glue", "glue_task": "STS-B", "trainpref": path, "validpref": path}
    validated, predicted = both("glue", path, **files)
    expected = [row.split("\t")[1] for row in validated.splitlines()[1:]]
    values = [each["value"] for each in predicted]
    assert [f"{value:.3f}" for value in values] == expected and len(values) > 800


@pytest.mark.slow
@pytest.mark.realdata
def test_sentences_of_universal_dependencies(both, real_data, tmp_path):
    text = (real_data / "ud" / "UD_English-GUM" / "en_gum-ud-test.conllu").read_text("utf-8")
    (tmp_path / "a.conllu").write_text(text)
    files = {"format": "conllu", "trainpref": "a.conllu", "validpref": "a.conllu"}
    validated, predicted = both("pos_tagging", "a.conllu", **files)
    words = ["--path", "run", "--precision", "fp32", "--input", "a.conllu"]
    assert predict([*words, "--output", "b.conllu"]) == 0
    assert (tmp_path / "b.conllu").read_text("utf-8") == validated != text
    assert len(predicted) == text.count("\n\n")
