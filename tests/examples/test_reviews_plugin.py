"""A plugin's data format, and a task that reads it, work through the real commands."""

import json
from pathlib import Path

import pytest

from toolkit.cli.inspect import main as inspect
from toolkit.cli.predict import main as predict
from toolkit.cli.preprocess import main as preprocess
from toolkit.cli.train import main as train
from toolkit.cli.validate import main as validate
from toolkit.data.storage.data_folder import DataFolder

PLUGIN = Path(__file__).resolve().parents[2] / "examples" / "reviews_plugin"
REVIEWS = [{"text": "a lovely film", "stars": 4}, {"text": "a dull film", "stars": 1}]


@pytest.fixture
def run(tmp_path):
    """Preprocesses reviews with further options; returns the exit code."""

    def call(*options, stars=4):
        reviews = [{**REVIEWS[0], "stars": stars}, REVIEWS[1]]
        (tmp_path / "a.jsonl").write_text("".join(json.dumps(it) + "\n" for it in reviews))
        files = ["--trainpref", str(tmp_path), "--destdir", str(tmp_path / "data")]
        chosen = ["--user-dir", str(PLUGIN), "--format", "reviews", "--tokenizer", "words"]
        return preprocess([*chosen, *files, *options])

    return call


def test_plugin_format_writes_its_own_columns(run, tmp_path, capsys):
    assert run("--json", str(tmp_path / "counts")) == 0
    folder = DataFolder.open(tmp_path / "data")
    assert folder.kind == "reviews"
    parts = folder.split("train").columns
    assert parts["stars"].parts[0].values.tolist() == [4, 1]
    assert folder.tokenizer.decode(parts["tokens"].parts[0].values[:3].tolist()) == "a lovely film"
    assert "2 reviews in" in capsys.readouterr().out
    events = [json.loads(line) for line in (tmp_path / "counts").read_text().splitlines()]
    assert events[0]["items"] == 2 and events[-1]["reviews"] == 2
    assert inspect([str(tmp_path / "data"), "--examples", "1"]) == 0


def test_plugin_format_has_its_own_options(run, tmp_path, capsys):
    assert run("--max-stars", "3") == 2
    assert "a.jsonl:1: expected 1 to 3 stars, found 4" in capsys.readouterr().err
    (tmp_path / "b.jsonl").write_text('{"stars": }\n')
    assert run() == 2 and "b.jsonl:1: expected JSON: " in capsys.readouterr().err
    assert run("--segment-by", "lines") == 2
    assert "--segment-by" in capsys.readouterr().err


@pytest.mark.slow
def test_task_of_the_plugin_learns_the_stars_that_its_format_wrote(run, tmp_path):
    assert run("--validpref", str(tmp_path)) == 0
    data, user = str(tmp_path / "data"), ["--user-dir", str(PLUGIN)]
    shape = ["--arch", "bert_tiny", "--width", "32", "--layers", "1", "--dropout", "0"]
    loading = ["--data.weights", "60", "--num-workers", "0"]
    limits = ["--max-epoch", "1", "--batch-size", "2", "--lr", "1e-2", "--warmup-updates", "0"]
    folder = ["--save-dir", str(tmp_path / "run")]
    assert train([data, *user, "--task", "rating", *shape, *limits, *loading, *folder]) == 0
    result = tmp_path / "valid.json"
    path = ["--path", str(tmp_path / "run" / "checkpoint_last")]
    assert validate([data, *user, *path, "--results-path", str(result)]) == 0
    (splits,) = json.loads(result.read_text()).values()
    metrics = splits["valid"]
    assert metrics["accuracy"] == 1.0 and metrics["stars_loss"] < 0.1
    answers = tmp_path / "answers.jsonl"
    asked = ["--input", str(tmp_path / "a.jsonl"), "--output", str(answers)]
    assert predict([*user, *path, *asked]) == 0
    assert [json.loads(line)["stars"] for line in answers.read_text().splitlines()] == [4, 1]
