"""The shared task's measure of tags (Zeman et al. 2018, section 4), on gold tokens.

With gold tokens every word is aligned with its own, words being the lines with a whole number:
neither ranges nor empty nodes. UPOS is then 2 |right| / (|gold words| + |words of the system|).
"""

import json

import pytest

from toolkit.cli.preprocess import main as preprocess
from toolkit.cli.validate import main as validate
from toolkit.config.load import compose
from toolkit.training.run import run


def row(number, form, tag):
    return "\t".join([number, form, "_", tag, "_", "_", "_", "_", "_", "_"]) + "\n"


TREEBANK = (
    ("# sent_id = 1\n" + row("1-2", "del", "_") + row("1", "de", "ADP") + row("2", "el", "DET")
     + row("3", "sol", "NOUN") + row("3.1", "es", "AUX") + "\n")
    + (row("1", "sol", "PROPN") + row("2", "a b", "X") + row("3", "el", "DET") + "\n")
)  # fmt: skip


def words_of(text):
    rows = [line.split("\t") for line in text.split("\n") if line and line[0] != "#"]
    return [columns[3] for columns in rows if columns[0].isdigit()]


def upos(gold, system):
    gold, system = words_of(gold), words_of(system)
    right = sum(a == b for a, b in zip(gold, system, strict=True))
    return 2 * right / (len(gold) + len(system))


@pytest.fixture
def figures(tmp_path):
    """accuracy and the filled file of a tagger that has hardly learned anything."""
    source, data, out = (str(tmp_path / name) for name in ("a.conllu", "data", "out.conllu"))
    (tmp_path / "a.conllu").write_text(TREEBANK, newline="")
    options = ["--format", "conllu", "--trainpref", source, "--validpref", source]
    assert preprocess([*options, "--destdir", data]) == 0
    given = {"arch": "bert_tiny", "task": "pos_tagging", "data.dirs": [data], "num_workers": 0}
    limits = {"max_update": 1, "lr": 0.01, "device": "cpu", "save_dir": str(tmp_path / "run")}
    run(compose({**given, **limits}))
    words = [data, "--path", str(tmp_path / "run"), "--predictions", out, "--num-workers", "0"]
    assert validate([*words, "--json", str(tmp_path / "figures.jsonl")]) == 0
    events = [json.loads(line) for line in (tmp_path / "figures.jsonl").read_text().splitlines()]
    return next(e for e in events if e["event"] == "valid"), (tmp_path / "out.conllu").read_text()


def test_accuracy_is_the_shared_tasks_upos_on_gold_tokens(figures):
    valid, filled = figures
    assert 0 < upos(TREEBANK, filled) < 1
    assert valid["accuracy"] == pytest.approx(upos(TREEBANK, filled), abs=1e-12)


def test_ranges_empty_nodes_and_comments_stay_as_they_are(figures):
    _, filled = figures
    for before, after in zip(TREEBANK.split("\n"), filled.split("\n"), strict=True):
        if not before[:1].isdigit() or not before.split("\t")[0].isdigit():
            assert before == after


@pytest.mark.slow
def test_text_without_tags_is_filled_in_and_measured_by_nothing(figures, tmp_path):
    bare = TREEBANK.replace("ADP", "_").replace("DET", "_").replace("NOUN", "_")
    bare = bare.replace("PROPN", "_").replace("\tX\t", "\t_\t")
    (tmp_path / "bare.conllu").write_text(bare, newline="")
    data, run_folder, out = (str(tmp_path / name) for name in ("bare", "run", "bare.out"))
    options = ["--format", "conllu", "--testpref", str(tmp_path / "bare.conllu"), "--destdir", data]
    options += ["--unseen-tags", "wrong", "--tokenizer-from", f"{run_folder}/checkpoint_best"]
    assert preprocess(options) == 0
    words = [data, "--path", run_folder, "--valid-subset", "test", "--num-workers", "0"]
    results = tmp_path / "results.json"
    assert validate([*words, "--predictions", out, "--results-path", str(results)]) == 0
    assert words_of((tmp_path / "bare.out").read_text()) == words_of(figures[1])
    assert json.loads(results.read_text())[run_folder]["test"] == {"examples": 2}
