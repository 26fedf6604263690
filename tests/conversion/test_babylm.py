"""toolkit-convert babylm: what the challenge wants of a run, each part once."""

from __future__ import annotations

import json
import math
import shutil

import pytest

from toolkit import build_model
from toolkit.checkpoints.save_folder import write_manifest
from toolkit.cli.convert import main
from toolkit.cli.validate import main as validate
from toolkit.conversion import babylm
from toolkit.conversion.babylm import name_revision
from toolkit.data.tokenizers.tokenizer import Tokenizer

transformers = pytest.importorskip("transformers")

SENTENCES = ["the cat sat", "a man sees dogs"]


@pytest.fixture
def run(tmp_path):
    """A run with checkpoints by words after 1K and 2K, and a last one."""
    for update, words in ((1, 1010), (2, 2003), (3, 2500)):
        add_checkpoint(tmp_path / "run", update, words=words, reasons=["words"] * (update < 3))
    for link in ("checkpoint_best", "checkpoint_last"):
        (tmp_path / "run" / link).symlink_to("checkpoint_e1_u3")
    return tmp_path / "run"


def add_checkpoint(folder, update, marks="1K,2K", **facts):
    folder.mkdir(exist_ok=True)
    checkpoint = folder / f"checkpoint_e1_u{update}"
    tokenizer = Tokenizer.train(SENTENCES, kind="words")
    build_model("bert_tiny", tokenizer=tokenizer, task="mlm", layers=1, width=16, heads=2).save(
        folder / "model"
    )
    shutil.move(folder / "model", checkpoint)
    config = json.loads((checkpoint / "config.json").read_text())
    config["run"]["checkpoint"] = {"save_at_words": marks}
    (checkpoint / "config.json").write_text(json.dumps(config))
    (checkpoint / "manifest.json").unlink()
    write_manifest(checkpoint, {"update": update, **facts})


def ask(run, *more):
    return main(["babylm", str(run), str(run.parent / "entry"), *map(str, more)])


def read_entry(run):
    return json.loads((run.parent / "entry" / "predictions.json").read_text())


def read_card(run):
    return (run.parent / "entry" / "main" / "README.md").read_text()


def write_lines(file, rows):
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_revisions_are_named_by_words_and_transformers_opens_them(run, capsys):
    assert ask(run) == 0
    entry = run.parent / "entry"
    names = ["chck_1K", "chck_2K", "main"]
    assert sorted(path.name for path in entry.iterdir() if path.is_dir()) == names
    model = transformers.AutoModelForMaskedLM.from_pretrained(entry / "chck_1K")
    own = build_model("bert_tiny", tokenizer=Tokenizer.train(SENTENCES, kind="words"), task="mlm")
    assert model.config.vocab_size == len(own.tokenizer.vocabulary)
    assert "* words seen: 1,010\n" in (entry / "chck_1K" / "README.md").read_text()
    printed = " ".join(capsys.readouterr().out.split())
    assert "revisions main, chck_1K, chck_2K missing blimp, blimp_supplement, ewok" in printed
    assert [name_revision(it) for it in (7_000_000, 10**9, 1500)] == [
        *("chck_7M", "chck_1000M", "chck_1500")
    ]


def test_the_challenge_wants_revisions_up_to_the_words_of_the_last_one(run, capsys):
    add_checkpoint(run, 4, "2M,12M", words=2_000_100, reasons=["words"])
    add_checkpoint(run, 5, "2M,12M", words=12_000_100, reasons=["epoch", "words"])
    assert ask(run, "--json", run.parent / "facts") == 0
    facts = json.loads((run.parent / "facts").read_text().splitlines()[-1])
    missing = [it for it in facts["missing"] if it.startswith("chck")]
    assert missing == [f"chck_{n}M" for n in (1, *range(3, 11))]
    assert facts["revisions"][-2:] == ["chck_2M", "chck_12M"]


def test_finished_folders_are_kept_unless_they_are_of_other_weights(run, monkeypatch, capsys):
    exported, export = [], babylm.convert_model
    monkeypatch.setattr(
        babylm, "convert_model", lambda a, b, c: exported.append(b.name) or export(a, b, c)
    )
    assert ask(run) == 0 and exported == ["main", "chck_1K", "chck_2K"]
    shutil.rmtree(run.parent / "entry" / "chck_1K")
    assert ask(run) == 0 and exported[3:] == ["chck_1K"]
    assert ask(run, "--classes", "toolkit") == 2
    assert "entry/main must be the export of" in capsys.readouterr().err
    shutil.rmtree(run / "checkpoint_e1_u2")
    add_checkpoint(run, 2, words=2003, reasons=["words"])
    assert ask(run) == 2 and "entry/chck_2K must be the export of" in capsys.readouterr().err
    assert len(exported) == 4


def test_predictions_have_the_form_of_the_challenge(run):
    scores = run.parent / "scores"
    pair = {"paradigm": "island", "prefixes": ["", ""], "options": ["good.", "bad."]}
    write_lines(
        scores / "blimp.jsonl",
        [{**pair, "scores": [-3, -2]}, {**pair, "scores": [-1, -1]}],
    )
    wug = {"paradigm": "wug_past_tense", "prefixes": ["", ""], "options": ["a", "b"], "rating": 1}
    write_lines(scores / "wug_past.jsonl", [{**wug, "scores": [-2, -1]}])
    comps = {"paradigm": "comps_wugs_dist-before", "prefixes": ["A dog", "A car"]}
    comps |= {"options": ["barks."] * 2, "scores": [-5, -4]}
    write_lines(scores / "comps.jsonl", [comps])
    write_lines(scores / "reading.jsonl", [{"pred": 2.5, "prev_pred": None}])
    tuned = run.parent / "glue"
    (tuned / "wsc").mkdir(parents=True)
    (tuned / "wsc" / "predictions.tsv").write_text("index\tprediction\n0\t1\n1\t0\n")
    task = {"task": "wsc", "metric": "accuracy", "n": 2, "mean": 0.625, "seeds": {"3": 0.6}}
    (tuned / "copa").mkdir()
    (tuned / "copa" / "predictions.tsv").write_text("row,label\n0,1\n")
    tasks = [{"task": "boolq"}, {**task, "predictions": "wsc/predictions.tsv"}]
    tasks.append({**task, "task": "copa", "predictions": "copa/predictions.tsv"})
    (tuned / "suite.json").write_text(json.dumps({"tasks": tasks}))
    fast = {"suite": "babylm-2025-fast", "set": "blimp", "correlations": []}
    fast |= {"paradigms": [{"name": "island", "accuracy": 0.75}], "items": 4}
    times = {"name": "spr", "partial_r2": 0.02}
    reading = {**fast, "set": "reading", "paradigms": [], "correlations": [times]}
    full = {**fast, "suite": "babylm-2025-full", "score": 0.8125, "standard_error": 0.0125}
    write_lines(
        run.parent / "results.jsonl",
        [
            *({**it, "path": str(run / "checkpoint_e1_u2")} for it in (fast, reading)),
            {**full, "path": str(run)},
        ],
    )
    parts = ["--predictions", scores, "--results", run.parent / "results.jsonl"]
    assert ask(run, *parts) == 0 and "fine-tuned" not in read_card(run)
    assert ask(run, *parts, "--fine-tuned", tuned) == 0
    answers = [{"id": "island_0", "pred": "bad."}, {"id": "island_1", "pred": "good."}]
    found = read_entry(run)
    [wug_answer] = found["wug_past"]["wug_past_tense"]["predictions"]
    assert wug_answer["pred"] == "b"
    assert math.isclose(wug_answer["prob"], 1 / (1 + math.e), rel_tol=1e-12)
    assert found["blimp"] == {"island": {"predictions": answers}}
    assert found["comps"] == {
        "wugs_dist_before": {"predictions": [{"id": "wugs_dist_before_0", "pred": "A car barks."}]}
    }
    classes = [{"id": "wsc_0", "pred": 1}, {"id": "wsc_1", "pred": 0}]
    option = [{"id": "copa_0", "pred": 1}]
    assert found["glue"] == {"wsc": {"predictions": classes}, "copa": {"predictions": option}}
    answer = {"id": 0, "pred": 2.5, "prev_pred": None}
    assert found["reading"] == {"reading": {"predictions": [answer]}}
    assert found["fast_eval_results"] == {
        "blimp": [None, {"island": 0.75}],
        "reading": [None, {"spr": 0.02}],
    }
    card = read_card(run)
    assert card.count("## Scores") == 1
    assert "| blimp | zero-shot | 0.81250 | 0.01250 |" in card
    assert "| wsc | fine-tuned, accuracy, 2 runs | 0.62500 | - |" in card
    (tuned / "wsc" / "predictions.tsv").write_text("index\tprediction\n0\tentailment\n")
    assert ask(run, "--fine-tuned", tuned) == 2


@pytest.mark.slow
def test_answers_of_validate_give_its_accuracies_again(run):
    data = run.parent / "full"
    rows = [{"sentence_good": "the cat sat", "sentence_bad": bad} for bad in ("a the", "a cat")]
    for name in ("one", "two"):
        (data / "blimp_filtered").mkdir(parents=True, exist_ok=True)
        write_lines(data / "blimp_filtered" / f"{name}.jsonl", rows)
    scores, results = run.parent / "scores", run.parent / "results.jsonl"
    words = [str(data), "--suite", "babylm-2025-full", "--path", str(run), "--ties", "first"]
    assert validate([*words, "--predictions", str(scores), "--results-path", str(results)]) == 0
    assert ask(run, "--predictions", scores, "--results", results) == 0
    [record] = [json.loads(line) for line in results.read_text().splitlines()]
    for paradigm in record["paradigms"]:
        answers = read_entry(run)["blimp"][paradigm["name"]]["predictions"]
        right = [it["pred"] == row["sentence_good"] for it, row in zip(answers, rows, strict=True)]
        assert sum(right) / len(rows) == paradigm["accuracy"]


def test_answers_and_results_must_be_of_the_final_model(run, capsys):
    (run / "checkpoint_best").unlink()
    (run / "checkpoint_best").symlink_to("checkpoint_e1_u2")
    scores, results = run.parent / "scores", run.parent / "results.jsonl"
    pair = {"paradigm": "island", "prefixes": ["", ""], "options": ["a", "b"], "scores": [-1, -2]}
    ewok = {**pair, "prefixes": ["one", "two"], "options": ["a", "a"]}
    write_lines(scores / "blimp.jsonl", [{**pair, "correct": 1.0}, {**pair, "correct": 0.5}])
    write_lines(scores / "ewok.jsonl", [ewok])
    full = {"suite": "babylm-2025-full", "set": "blimp", "score": 0.75, "standard_error": 0.1}
    full |= {"paradigms": [{"name": "island", "accuracy": 0.75}]}
    write_lines(results, [{**full, "path": str(run / "checkpoint_last")}])
    given = ["--predictions", scores, "--results", results]
    assert ask(run, *given) == 2
    error = capsys.readouterr().err
    assert (
        "run/checkpoint_e1_u3. Give that checkpoint" in error and "/checkpoint_e1_u2, but" in error
    )
    assert not (run.parent / "entry").exists()
    last = ["babylm", str(run / "checkpoint_last"), str(run.parent / "entry"), *map(str, given)]
    assert main(last) == 0
    assert "ewok (the challenge compares targets" in " ".join(capsys.readouterr().out.split())
    assert "ewok" not in read_entry(run) and "chck_2K" in [
        it.name for it in (run.parent / "entry").iterdir()
    ]
    assert "words seen: 2,500" in read_card(run)
    write_lines(scores / "blimp.jsonl", [{**pair, "correct": 1.0}])
    assert main(last) == 2 and "another one on island" in capsys.readouterr().err


def test_ages_and_sets_that_are_not_whole_are_listed(run, capsys):
    scores, results = run.parent / "scores", run.parent / "results.jsonl"
    pair = {"paradigm": "island", "prefixes": ["", ""], "options": ["a", "b"], "scores": [-1, -2]}
    write_lines(scores / "blimp.jsonl", [pair] * 2)
    write_lines(scores / "wug_past.jsonl", [{**pair, "rating": 1}] * 50)
    fast = {"suite": "babylm-2025-fast", "set": "wug_adj", "paradigms": [], "correlations": []}
    paths = [str(run / f"checkpoint_e1_u{update}") for update in (1, 2)]
    ages = {"path": paths[1], "contexts": {"dog": 2}, "surprisals": {"dog": [2.0, 9.0]}}
    write_lines(results, [ages, *({**fast, "path": it, "items": 30} for it in paths)])
    assert ask(run, "--predictions", scores, "--results", results) == 0
    printed = " ".join(capsys.readouterr().out.split())
    listed = (
        "incomplete blimp (2 of 59,875 items), fast wug_adj (30 of 200 items), aoa (2 of 13,120"
    )
    assert f"{listed} items). The challenge wants whole sets, of all revisions and with" in printed
    row = {"step": "chck_2K", "target_word": "dog", "context": "BOS_ONLY"}
    rows = [{**row, "context_id": n, "surprisal": 2 * math.log(2)} for n in (0, 1)]
    steps = {"use_bos_only": True, "total_steps": 2, "completed_steps": 1}
    assert read_entry(run)["aoa"] == {"metadata": steps, "results": rows}


def test_what_an_entry_lacks_is_one_line(run, capsys):
    def error(*more):
        assert ask(run, *more) == 2
        return capsys.readouterr().err

    (run.parent / "empty").mkdir()
    assert "empty must hold blimp.jsonl, " in error("--predictions", run.parent / "empty")
    assert "Name the save folder of toolkit-train" in error("--fine-tuned", run.parent / "empty")
    (run.parent / "empty" / "blimp.jsonl").write_text('{"sentence_good": "a"}\n')
    assert "missing required field paradigm" in error("--predictions", run.parent / "empty")
    for update in (1, 2):
        shutil.rmtree(run / f"checkpoint_e1_u{update}")
    assert "must be a save folder with checkpoints by words" in error()
    add_checkpoint(run, 4)
    assert "checkpoint_e1_u4 must have a count of the words seen, but has none" in error()
    assert not (run.parent / "entry").exists()
