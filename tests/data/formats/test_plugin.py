"""A plugin's data format works through the real commands."""

import json
from pathlib import Path

import pytest

from toolkit.cli.inspect import main as inspect
from toolkit.cli.preprocess import main as preprocess
from toolkit.data.storage.data_folder import DataFolder

PLUGIN = Path(__file__).resolve().parents[2] / "fixtures" / "reviews_plugin"
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


def test_the_plugin_has_fewer_than_60_lines():
    assert sum(len(file.read_text().splitlines()) for file in PLUGIN.glob("*.py")) < 60


def test_a_plugin_format_writes_its_own_columns(run, tmp_path, capsys):
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


def test_a_plugin_format_has_its_own_options(run, capsys):
    assert run("--max-stars", "3") == 2
    assert "a.jsonl:1: expected 1 to 3 stars, found 4" in capsys.readouterr().err
    assert run("--segment-by", "lines") == 2
    assert "--segment-by" in capsys.readouterr().err


def test_the_help_shows_a_plugin_format(capsys):
    assert preprocess(["--user-dir", str(PLUGIN), "--format", "reviews", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Texts with a number of stars, as JSON lines." in shown and "--format.max-stars" in shown
