"""The recipes of the papers, and the scripts of fine-tuning."""

from __future__ import annotations

import json
import runpy
import subprocess
from pathlib import Path

import pytest

from toolkit.config.commands.train import TRAIN
from toolkit.config.load import load

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

SCRIPTS = [
    *EXAMPLES.glob("*/glue.sh"),
    EXAMPLES / "glue" / "short.sh",
    EXAMPLES / "taco" / "reading.sh",
]


def recipe(name, *options):
    return load(["data", "--config", f"recipe:{name}", *options], TRAIN).config


@pytest.mark.parametrize(
    ("paper", "head", "rate", "decay", "layers"),
    [
        ("chang2021", "pooled", 3e-4, 0.0, 1.0),
        ("taco", "plain", 2e-5, 0.01, 1.0),
        ("jiang2020", "plain", 3e-4, 0.01, 0.8),
    ],
)
def test_fine_tuning_recipes_equal_the_papers_tables(paper, head, rate, decay, layers):
    c = recipe(f"{paper}-glue", "--arch", "bert_tiny")
    assert (c.task.config.head, c.data.batch_size, c.training.max_epoch) == (head, 32, 3)
    adam = c.optimizer.config
    assert (adam.lr, adam.weight_decay, adam.layerwise_lr_decay) == (rate, decay, layers)
    assert (adam.beta1, adam.beta2, adam.eps) == (0.9, 0.999, 1e-6)
    assert adam.bias_correction == (paper != "jiang2020")
    assert (c.lr_scheduler.name, c.lr_scheduler.config.warmup_fraction) == ("linear", 0.1)
    assert c.training.best_metric == "score" and c.arch.config.dropout == 0.1


@pytest.mark.parametrize(
    ("name", "task", "batch", "rate", "epochs", "decay"),
    [
        ("squad", "squad", 32, 2e-5, 2, 0.01),
        ("race", "multiple_choice", 16, 1e-5, 6, 0.1),
        ("swag", "multiple_choice", 32, 2e-5, 4, 0.01),
    ],
)
def test_recipes_of_reading_equal_tacos_table(name, task, batch, rate, epochs, decay):
    c = recipe(f"taco-{name}", "--arch", "bert_tiny")
    assert (c.task.name, c.data.batch_size, c.training.max_epoch) == (task, batch, epochs)
    assert (c.optimizer.config.lr, c.optimizer.config.weight_decay) == (rate, decay)


@pytest.mark.parametrize(
    ("name", "arch", "rate", "batch", "updates"),
    [
        ("chang2021-small", "composite_bert_small", 3e-4, 128, 125_000),
        ("chang2021-base", "composite_bert", 1e-4, 256, 1_000_000),
        ("jiang2020-small", "convbert_small", 3e-4, 128, 1_000_000),
        ("jiang2020-medium-small", "convbert_medium_small", 5e-4, 128, 1_000_000),
        ("jiang2020-base", "convbert", 2e-4, 256, 1_000_000),
        ("taco-base", "taco", 1e-4, 1200, 500_000),
    ],
)
def test_pre_training_recipes_equal_the_papers_tables(name, arch, rate, batch, updates):
    c = recipe(name)
    adam = c.optimizer.config
    assert (c.arch.name, c.training.max_update) == (arch, updates)
    assert c.data.batch_size * (c.training.micro_batches_per_update or 1) == batch
    assert (adam.lr, adam.weight_decay, adam.eps) == (rate, 0.01, 1e-6)
    assert (c.training.clip_norm, c.lr_scheduler.name) == (1.0, "linear")
    assert c.lr_scheduler.config.warmup_updates == 10_000
    assert adam.bias_correction == (not name.startswith("jiang2020"))
    assert c.task.config.tokens_per_sample == 128
    assert name != "taco-base" or c.task.config.position_range == "full_table"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: "/".join(path.parts[-2:]))
def test_script_without_arguments_prints_its_usage(script):
    found = subprocess.run(["bash", script], capture_output=True, text=True)
    name = "/".join(script.parts[-3:])
    assert found.returncode == 2 and name in found.stderr and "RUNS" in found.stderr


def test_passages_extracts_text_from_questions_articles_treebanks_and_translations(
    tmp_path, capsys
):
    squad = {"data": [{"paragraphs": [{"context": "One\n passage."}, {"context": "One passage."}]}]}
    (tmp_path / "squad.json").write_text(json.dumps(squad))
    race = json.dumps({"article": "An\u2028article."}, ensure_ascii=False)
    (tmp_path / "race" / "high").mkdir(parents=True)
    (tmp_path / "race" / "high" / "1.txt").write_text(race + "\n")
    (tmp_path / "race" / ".DS_Store").write_bytes(b"\xff\n")
    sentences = ["# newdoc id = 1", "# text = A.", "# text = B.", "# newdoc id = 2", "# text = C."]
    (tmp_path / "tree.conllu").write_text("\n".join(sentences) + "\n")
    (tmp_path / "pairs.txt").write_text("It &apos;s so .\n\n&quot; Yes .\n")
    names = ["squad.json", "race", "tree.conllu", "pairs.txt"]
    main = runpy.run_path(str(EXAMPLES / "glue" / "passages.py"))["main"]
    main(tmp_path / "out", [tmp_path / name for name in names])
    found = [path.read_text() for path in sorted((tmp_path / "out").iterdir())]
    assert found == ["One passage.\n", "An article.\n", "A. B.\n\nC.\n", "It 's so .\n\n\" Yes .\n"]
    (tmp_path / "cut.json").write_text('{"data": [')
    (tmp_path / "no.conllu").write_text("1\tA\n")
    messages = {
        "squad.pdf": "expected a .json",
        "cut.json": "Download it again",
        "no.conllu": "contains no text",
    }
    for name, words in messages.items():
        with pytest.raises(SystemExit) as ended:
            main(tmp_path / "out", [tmp_path / name])
        assert ended.value.code == 2 and words in capsys.readouterr().err


@pytest.mark.slow
def test_short_script_runs_from_text_to_tables(commands, tmp_path):
    rows = [f"s{i}\t{i % 2}\t\tthe {'cat' if i % 2 else 'dog'} sat here" for i in range(40)]
    (tmp_path / "glue" / "CoLA").mkdir(parents=True)
    for name in ("train", "dev"):
        (tmp_path / "glue" / "CoLA" / f"{name}.tsv").write_text("\n".join(rows) + "\n")
    text = [f"The {w} of page {i} sat on the mat, and so it was." for i in range(800) for w in "ab"]
    (tmp_path / "text.txt").write_text("\n".join(text) + "\n")
    script = ["bash", EXAMPLES / "glue" / "short.sh", tmp_path / "glue", tmp_path / "text.txt"]
    asked = {"UPDATES": "1", "SEEDS": "0", "POSITION_SEEDS": "0", "EXTRA": "--max-update 2"}
    given = {"cwd": tmp_path, "env": {**commands, **asked, "VOCABULARY": "60"}, "text": True}
    found = subprocess.run(script, **given, capture_output=True)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "no " + str(tmp_path / "glue" / "QQP") in found.stderr
    tables = (tmp_path / "short" / "tables.md").read_text()
    assert "| CoLA | Matthews | 0.0 |" in tables and "| difference |" in tables
