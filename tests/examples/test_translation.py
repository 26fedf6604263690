"""The table of examples/translation, on translations made by hand; and the recipes."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

from toolkit.cli import train
from toolkit.config.load import load

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TRUE = ["Ein Hund bellt in der Nacht.", "Die Katze sitzt auf der Matte."]


def written(run: Path, name: str, said: list[str]) -> None:
    run.mkdir(parents=True, exist_ok=True)
    rows = [{"hypotheses": [{"text": s}], "reference": t} for s, t in zip(said, TRUE, strict=True)]
    (run / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def run_scores(monkeypatch, capsys):
    """Runs the script on a folder; gives the lines that it prints."""

    def tell(folder):
        monkeypatch.setattr(
            sys, "argv", ["scores.py", str(folder), "--into", f"{folder}/scores.jsonl"]
        )
        runpy.run_path(str(EXAMPLES / "translation" / "scores.py"), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return tell


def test_scores_has_every_seed_in_both_cases(tmp_path, run_scores):
    written(tmp_path / "arch=lightconv_tiny,seed=1", "best", TRUE)
    written(tmp_path / "arch=lightconv_tiny,seed=2", "best", [text.lower() for text in TRUE])
    written(tmp_path / "arch=lightconv_tiny,seed=1", "averaged-10", TRUE)
    _, best, averaged, *signatures = run_scores(tmp_path)
    assert best.startswith("lightconv_tiny  best checkpoint") and best.split()[-2] == "100.00"
    assert "last 10 averaged" in averaged and averaged.split()[-1] == "100.00"
    assert any("bleu_lowercase: " in line and "case:lc" in line for line in signatures)
    assert float(best.split()[-1]) < 100
    [line, _] = map(json.loads, (tmp_path / "scores.jsonl").read_text().splitlines())
    assert line["bleu_by_seed"][0] == pytest.approx(100) and len(line["bleu_by_seed"]) == 2


@pytest.mark.parametrize(
    ("recipe", "options", "parameters"),
    [
        ("translation/multi30k.yaml", ["--arch", "dynamicconv_tiny"], {"share_embeddings": "all"}),
        (
            "language_modeling/novels.yaml",
            ["--arch.positions", "t5"],
            {"layers": 4, "positions": ["t5"]},
        ),
    ],
)
def test_recipes_load(recipe, options, parameters):
    found = load(["data", "--config", str(EXAMPLES / recipe), *options], train.COMMAND)
    assert {name: getattr(found.config.arch.config, name) for name in parameters} == parameters
