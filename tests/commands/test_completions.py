"""toolkit-validate --task completions and minimal_pairs on a small checkpoint."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch

from toolkit import build_model, load_checkpoint
from toolkit.cli.validate import main
from toolkit.commands import completions as command
from toolkit.config.commands.checkpoints import CompletionsConfig
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.distributed import World
from toolkit.optim.update import Precision
from toolkit.reporting.console import Progress
from toolkit.tasks.completions.items import read_sets
from toolkit.tasks.completions.scorer import TextScorer

TEXTS = ["the cat sat on a mat and saw how dogs run far", "cats see the dog", "a man sees dogs"]
PAIRS = [
    ("the cat sees dogs", "the cat see dogs"),
    ("a man sat", "a men sat"),
    ("dogs run", "dogs runs"),
    ("the dogs see cats", "the dogs sees cats"),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Checkpoints of a masked, a causal and a classifying model, by task."""
    folder = tmp_path_factory.mktemp("runs")
    tokenizer = Tokenizer.train(TEXTS * 3, kind="wordpiece", vocabulary_size=45, lowercase=True)
    torch.manual_seed(0)
    shape = {"layers": 1, "max_positions": 16}
    models = {"mlm": "bert_tiny", "language_modeling": "transformer_lm_tiny", "rtd": "bert_tiny"}
    for task, arch in models.items():
        learner = build_model(arch, tokenizer=tokenizer, task=task, **shape)
        with torch.no_grad():
            for parameter in learner.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(std=0.2)
        learner.save(folder / task)
    return folder


@pytest.fixture
def blimp(tmp_path):
    """A folder like BLiMP's, of two paradigms, with a file that holds something else."""
    folder = tmp_path / "blimp"
    folder.mkdir()
    for name, phenomenon, field, pairs in (
        ("verbs", "agreement", "morphology", PAIRS),
        ("nouns", "islands", "syntax/semantics", PAIRS[1:]),
    ):
        write(folder / f"{name}.jsonl", pairs, UID=name, linguistics_term=phenomenon, field=field)
    (folder / "models_summary.jsonl").write_text('{"UID": "verbs", "gpt2": 0.9}\n')
    return folder


def write(file, pairs, **more):
    rows = [{"sentence_good": good, "sentence_bad": bad, **more} for good, bad in pairs]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def ask(*words, task="mlm", runs=None):
    return main([*map(str, words), "--task", "minimal_pairs", "--path", str(runs / task)])


def test_results_are_reported_by_paradigm_and_phenomenon(runs, blimp, tmp_path, capsys):
    files = {name: tmp_path / name for name in ("results-path", "predictions", "json")}
    options = [word for name, file in files.items() for word in (f"--{name}", file)]
    assert ask(blimp, *options, "--precision", "fp32", runs=runs) == 0
    record = json.loads(files["results-path"].read_text())
    printed, rows = capsys.readouterr().out, files["predictions"].read_text().splitlines()
    rows = [json.loads(row) for row in rows]
    assert [record[key] for key in ("task", "scoring", "normalization", "precision")] == [
        *("minimal_pairs", "pseudo_log_likelihood", "none", "fp32")
    ]
    assert "Skipped models_summary.jsonl" in printed and "islands" in printed
    overall = {"pairs": 7, "paradigms": 2, "ties": 0}
    assert overall.items() <= record["overall"].items()
    assert [p["name"] for p in record["phenomena"]] == ["agreement", "islands"]
    assert [p["field"] for p in record["phenomena"]] == ["morphology", "syntax_semantics"]
    nouns, verbs = record["paradigms"]
    assert (verbs["phenomenon"], verbs["pairs"], nouns["name"]) == ("agreement", 4, "nouns")
    for paradigm in record["paradigms"]:
        won = [row["correct"] for row in rows if row["paradigm"] == paradigm["name"]]
        assert paradigm["accuracy"] == pytest.approx(sum(won) / len(won))
    for row in rows:
        assert row["correct"] == (row["score_good"] > row["score_bad"])
        assert row["tokens_good"] >= 2 and row["file"].endswith(f"{row['paradigm']}.jsonl")
    events = [json.loads(line) for line in files["json"].read_text().splitlines()]
    assert [event.pop("event") for event in events] == ["minimal_pairs", "end"]
    assert events[0] == record and events[1]["pairs"] == 7


def test_ranks_share_the_work(runs, blimp, monkeypatch, ranks):
    monkeypatch.setattr(command, "ITEMS_PER_CHUNK", 2)
    c = CompletionsConfig(files=[str(blimp)], path=[str(runs / "mlm")], precision="fp32")
    pairs, _ = read_sets(c.files)
    learner = load_checkpoint(c.path[0])

    def score(world):
        precision = Precision("fp32", world.device)
        scorer = TextScorer(learner, c.scoring, precision=precision, max_tokens=4096)
        texts = command.encode_items(scorer, pairs, "option", "")
        with Progress("", len(pairs), "pairs", quiet=True) as progress:
            return command.score_items(scorer, pairs, texts, progress, world)[0].tolist()

    alone = score(World())
    assert len(alone) == 14 and all(it < -1 for it in alone)
    for found in ranks(score):
        assert found == pytest.approx(alone, abs=1e-4)


def test_two_columns_are_read_with_a_language_model(runs, tmp_path, capsys):
    lines = ["sentence_good\tsentence_bad", *("\t".join(pair) for pair in PAIRS)]
    (tmp_path / "own.tsv").write_text("\r\n".join(lines) + "\n\n")
    words = [tmp_path / "own.tsv", "--normalization", "tokens", "--precision", "fp32"]
    results, pairs = tmp_path / "results", tmp_path / "pairs"
    words += ["--results-path", results, "--predictions", pairs]
    assert ask(*words, task="language_modeling", runs=runs) == 0
    record = json.loads(results.read_text())
    assert (record["scoring"], record["normalization"]) == ("log_likelihood", "tokens")
    assert record["phenomena"] == [] and record["paradigms"][0]["name"] == "own"
    row = json.loads(pairs.read_text().splitlines()[0])
    assert -10 < row["score_good"] < 0 and row["line"] == 2
    assert "overall" in capsys.readouterr().out


def test_sentences_that_the_tokenizer_makes_equal_are_a_remark_and_a_tie(runs, tmp_path, capsys):
    pairs = [*PAIRS, ("the cat sat", "The cat sat"), ("the % sat", "the & sat")]
    write(tmp_path / "some.jsonl", pairs)
    assert ask(tmp_path / "some.jsonl", "--results-path", tmp_path / "x", runs=runs) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"2 pairs have the same tokens in both sentences for {runs / 'mlm'} and" in printed
    assert "some.jsonl:5." in printed
    assert json.loads((tmp_path / "x").read_text())["overall"]["ties"] == 2


def test_scores_that_are_not_finite_are_an_error(runs, tmp_path, monkeypatch, capsys):
    write(tmp_path / "a.jsonl", PAIRS)
    scores = np.array([-1.0, -2.0, np.nan, -1.0, -np.inf, -np.inf, 0.0, 0.0])
    monkeypatch.setattr(command, "score_items", lambda *arguments: (scores, np.zeros(8)))
    assert ask(tmp_path / "a.jsonl", "--precision", "fp32", runs=runs) == 2
    assert "a.jsonl:2: scores must be finite, but in fp32 they are nan and -1.0." in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(("ties", "accuracy", "tied"), [("first", 0.5, 1), ("half", 0.375, 3)])
def test_with_ties_first_the_accuracy_is_that_of_the_answers_also_for_near_ties(
    runs, tmp_path, monkeypatch, ties, accuracy, tied
):
    write(tmp_path / "a.jsonl", PAIRS)
    scores = np.array([-9, -9.00005, -9.00005, -9, -9 - 1e-9, -9, -8, -7])
    monkeypatch.setattr(command, "score_items", lambda *arguments: (scores, np.zeros(8)))
    results, answers = tmp_path / "results", tmp_path / "answers"
    words = ["--ties", ties, "--results-path", results, "--predictions", answers]
    assert ask(tmp_path / "a.jsonl", *words, "--precision", "fp32", runs=runs) == 0
    overall = json.loads(results.read_text())["overall"]
    assert (overall["accuracy"], overall["ties"]) == (accuracy, tied)
    rows = [json.loads(row) for row in answers.read_text().splitlines()]
    if ties == "first":  # the first of the highest is answered
        assert np.mean([row["score_good"] >= row["score_bad"] for row in rows]) == accuracy


GOOD = '{"sentence_good": "dogs run", "sentence_bad": "dogs runs"}\n'


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.jsonl",
            GOOD + '{"good": "x", "bad": "y"}',
            r"2: its fields are 'good', 'bad'\. .*COMPS",
        ),
        ("a.jsonl", '{"text": "a b", "label": 1}', r":1: its fields are 'text', 'label'\."),
        ("a.jsonl", GOOD.replace('"dogs run"', "3"), r":1: the field .* must hold a string"),
        ("a.jsonl", GOOD.replace("runs", "run"), r":1: the options must differ, but are"),
        ("a.jsonl", GOOD + GOOD.replace("runs", "runs " * 15), r":2: .* at most 14 tokens .* has"),
        ("a.tsv", "dogs run\tdogs runs\nalone\n", r":2: expected two sentences .* found 1 column"),
        ("a.tsv", "", r"a\.tsv must hold sentence pairs"),
        ("a.tsv", "option_1\toption_2\na\tb\n", r":2: answer must be the number .* is 'missing'"),
        ("a.jsonl", '{"options": ["a", "b"], "rating": null}', r":1: .* a number, but is None"),
    ],
)
def test_malformed_files_are_one_line(runs, tmp_path, capsys, name, text, message):
    (tmp_path / name).write_text(text)
    assert ask(tmp_path / name, runs=runs) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(message, error), error


def test_missing_files_and_folders_without_pairs_are_one_line(runs, blimp, capsys):
    for words, message in (
        ([blimp / "none.jsonl"], "No such file or directory"),
        ([runs / "mlm"], "must hold .jsonl files of a known set"),
        ([blimp / "models_summary.jsonl"], "its fields are 'UID', 'gpt2'"),
        ([blimp, blimp / "verbs.jsonl"], "must be named once, but is named twice"),
    ):
        assert ask(*words, runs=runs) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and message in error, error


def test_options_that_cannot_be_combined_are_one_line(runs, blimp, tmp_path, capsys):
    for words, message in (
        (
            ["--scoring", "log_likelihood"],
            "scoring must be one of pseudo_log_likelihood, within_word",
        ),
        (["--path", runs / "mlm", runs / "mlm", "--predictions", "x"], "requires one checkpoint"),
        (
            ["--task", "mlm"],
            "task must be one of completions, minimal_pairs, but is 'mlm'. Omit --task",
        ),
        (["--path", runs / "rtd"], "requires a model trained with --task mlm,"),
        (["--predictions", blimp / "x.jsonl"], "--predictions must be outside of the files and"),
    ):
        start = ["--task", "minimal_pairs", "--path", str(runs / "mlm")]
        assert main([str(blimp), *start, *map(str, words)]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and message in error, error


def test_results_are_written_after_each_checkpoint(runs, blimp, tmp_path, capsys):
    results = tmp_path / "x"
    words = ["--task", "minimal_pairs", "--path", runs / "mlm", runs / "rtd"]
    assert main([str(blimp), *map(str, words), "--results-path", str(results)]) == 2
    assert json.loads(results.read_text())["path"] == str(runs / "mlm")


def test_a_second_checkpoint_is_compared_with_the_first_on_the_same_pairs(
    runs, blimp, tmp_path, capsys
):
    results, counts = tmp_path / "results", tmp_path / "counts"
    counts.write_text("the 900\ndogs 90\nsees 9\n")
    seeds = [tmp_path / f"lm,seed={seed}" for seed in (0, 1)]
    for seed in seeds:
        seed.symlink_to(runs / "language_modeling")
    paths = ["--path", str(runs / "mlm"), *map(str, seeds)]
    words = [str(blimp), "--task", "minimal_pairs", *paths, "--frequencies", str(counts)]
    assert main([*words, "--results-path", str(results), "--precision", "fp32"]) == 0
    first, second, third = map(json.loads, results.read_text().splitlines())
    assert "difference" not in first and second["difference"]["from"] == str(runs / "mlm")
    assert [it["difference"]["seeds"] for it in (second, third)] == [[1, 1], [2, 1]]
    assert second["difference"]["groups"] == third["difference"]["groups"], "equal seeds"
    groups = {it["name"]: it["difference"] for it in second["difference"]["groups"]}
    assert groups["overall"] == pytest.approx(
        second["overall"]["accuracy"] - first["overall"]["accuracy"]
    )
    printed = capsys.readouterr().out
    assert f"minus {runs / 'mlm'} (over 2 and 1 seeds)" in printed and "frequency only" in printed
    assert printed.count(f"{tmp_path / 'lm'}: log_likelihood, over 2 seeds") == 1
    assert third["over_seeds"]["groups"][-1]["accuracy"] == pytest.approx(
        third["overall"]["accuracy"]
    )
    rows = {row["name"]: row["frequency_only"] for row in first["paradigms"]}
    assert rows == {"verbs": 0.5, "nouns": pytest.approx(1 / 3)}, "sees is the most frequent form"


def test_single_items_have_no_standard_error(runs, blimp, tmp_path, capsys):
    results, seeds = tmp_path / "results", [tmp_path / f"lm,seed={seed}" for seed in (0, 1)]
    for seed in seeds:
        seed.symlink_to(runs / "mlm")
    words = [str(blimp), "--limit", "1", "--path", *map(str, seeds), "--results-path", str(results)]
    assert main([*words, "--task", "minimal_pairs"]) == 0
    last = json.loads(results.read_text().splitlines()[1])
    for rows in (last["paradigms"], [last["overall"]], last["over_seeds"]["groups"]):
        assert {row["standard_error"] for row in rows} == {None}
    table = capsys.readouterr().out.split("over 2 seeds")[1]
    assert next(it for it in table.splitlines() if "overall" in it).split()[-1] == "-"


ROWS = {
    "ewok": {"Context1": "a cat", "Context2": "dogs", "Target1": "sees", "Domain": "agents"},
    "boxes": {"input_prefix": "the ", "numops": 2, "options": ["cat", "dog", "man", "mat", "far"]},
    "comps": {
        "prefix_acceptable": "a cat",
        "prefix_unacceptable": "a mat",
        "property_phrase": "saw",
    },
    "wug": {"sentences": "the cat\tthe dogs", "ratio": 0.7},
    "piqa": {"prompt": "dogs", "solution0": "run far", "solution1": "run", "label": 1},
    "lambada": {"text": "the cat sat on a mat"},
    "multi": {"sen": "dogs run", "wrong_sen": "dogs runs"},
}


def test_published_sets_are_read_by_their_fields(runs, tmp_path, capsys):
    for name, row in ROWS.items():
        rows = [row, {**row, "ratio": 0.2, "sentences": "a cat\ta man"}] if name == "wug" else [row]
        lines = "".join(json.dumps(it) + "\n" for it in rows)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    clams, zorro = tmp_path / "clams.txt", tmp_path / "zorro.txt"
    clams.write_text("True\tdogs run\nFalse\tdogs runs\n")
    zorro.write_text("dogs runs\ndogs run\n")
    (tmp_path / "own.tsv").write_text(
        "prefix\toption_1\toption_2\toption_3\tanswer\na cat\tsat\tsaw\trun\t2\n"
    )
    items, _ = read_sets([str(tmp_path), str(clams), str(zorro)])
    read = {it.paradigm.name: (it.texts, it.answer) for it in items}
    assert read["agents"] == (["a cat sees", "dogs sees"], 0)
    assert read["boxes_2_ops"][0][:2] == ["the cat", "the dog"]
    assert read["comps"] == (["a cat saw", "a mat saw"], 0)
    assert read["piqa"] == (["dogs run far", "dogs run"], 1)
    assert read["lambada"] == (["the cat sat on a mat"], 0)
    assert read["own"] == (["a cat sat", "a cat saw", "a cat run"], 1)
    pair = (["dogs run", "dogs runs"], 0)
    assert read["multi"] == read["clams"] == read["zorro"] == pair
    results = tmp_path / "results"
    words = [str(tmp_path), "--task", "completions", "--path", str(runs / "mlm")]
    assert main([*words, "--results-path", str(results), "--precision", "fp32"]) == 0
    record = json.loads(results.read_text())
    assert record["correlations"][0]["items"] == 2
    chances = {row["name"]: row["chance"] for row in record["paradigms"]}
    assert chances == {
        **{"agents": 0.5, "boxes_2_ops": 0.2, "comps": 0.5, "lambada": 0, "multi": 0.5},
        **{"own": pytest.approx(1 / 3), "piqa": 0.5},
    }
    assert main([*words[:2], "minimal_pairs", *words[3:]]) == 2
    assert "Choose --task completions." in capsys.readouterr().err


def test_tokens_of_the_option_or_of_the_text_are_scored_and_characters_counted(runs, tmp_path):
    table, scores = tmp_path / "a.tsv", tmp_path / "scores"
    table.write_text("prefix\toption_1\toption_2\tanswer\nthe cat\tsees dogs\tsat\t1\n")

    def ask(*words):
        start = [str(table), "--task", "completions", "--path", str(runs / "mlm")]
        assert main([*start, "--precision", "fp32", "--predictions", str(scores), *words]) == 0
        return json.loads(scores.read_text())

    option, text, mean = ask(), ask("--scored", "text"), ask("--normalization", "characters")
    encode = load_checkpoint(runs / "mlm").tokenizer.encode
    assert option["tokens"] == mean["tokens"] == [len(encode("sees dogs")), len(encode("sat"))]
    assert text["tokens"] == [len(encode("the cat sees dogs")), len(encode("the cat sat"))]
    assert np.multiply(mean["scores"], [9, 3]) == pytest.approx(option["scores"])


SUITE = """
grammar: {files: [blimp], average: items}
mean: {files: [blimp], normalization: tokens}
gone: {files: [nothing]}
times: {files: [nothing.csv], task: reading_times}
boxes: {files: [boxes], average: phenomena}
forms: {files: [wug.jsonl]}
"""


def test_a_suite_scores_its_sets_in_order_and_reports_those_that_are_missing(
    runs, blimp, tmp_path, capsys
):
    boxes, names = tmp_path / "boxes", ROWS["boxes"]["options"]
    boxes.mkdir()
    for stem, operations in (("regular", [0, 0, 0, 1]), ("ambiref", [0])):
        rows = [
            {**ROWS["boxes"], "numops": it, "options": names[shift:] + names[:shift]}
            for shift, it in enumerate(operations)
        ]
        (boxes / f"{stem}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    wugs = [ROWS["wug"], {"sentences": "a cat\ta man", "ratio": 0.2}]
    (tmp_path / "wug.jsonl").write_text("".join(json.dumps(row) + "\n" for row in wugs))
    suite, results, scores = (
        tmp_path / "own.yaml",
        tmp_path / "results",
        tmp_path / "out" / "scores",
    )
    suite.write_text(SUITE)
    words = [str(tmp_path), "--suite", str(suite), "--path", str(runs / "mlm")]
    options = ["--results-path", str(results), "--predictions", str(scores), "--precision", "fp32"]
    assert main([*words, *options]) == 0
    records = [json.loads(line) for line in results.read_text().splitlines()]
    assert [it["set"] for it in records] == ["grammar", "mean", "boxes", "forms"]
    grammar, mean, boxes, forms = records
    accuracies = {it["name"]: it["accuracy"] for it in boxes["paradigms"]}
    regular = (accuracies["regular_0_ops"] + accuracies["regular_1_ops"]) / 2
    assert boxes["score"] == pytest.approx((regular + accuracies["ambiref_0_ops"]) / 2)
    assert (boxes["items"], boxes["chance"]) == (5, pytest.approx(0.2))
    assert grammar["score"] == grammar["overall"]["accuracy"]
    assert grammar["standard_error"] == pytest.approx(grammar["overall"]["standard_error"])
    assert mean["normalization"] == "tokens"
    assert mean["score"] == pytest.approx(np.mean([it["accuracy"] for it in mean["paradigms"]]))
    assert forms["score"] == forms["correlations"][0]["spearman"] and forms["chance"] is None
    assert {it.name for it in scores.iterdir()} == {f"{it['set']}.jsonl" for it in records}
    printed = capsys.readouterr().out
    assert "/mlm: boxes: " in printed
    assert "gone is left out: No such file or directory" in printed
    assert "nothing.csv: No such file or directory." in printed
    table = printed.split("own.yaml\n")[-1].splitlines()
    assert [line.split()[0] for line in table] == [
        *("set", "grammar", "mean", "gone", "times", "boxes", "forms", "mean")
    ]
    assert float(table[-1].split()[4]) == pytest.approx(
        np.mean([it["score"] for it in records]), abs=1e-4
    )


@pytest.mark.parametrize(
    ("suite", "message"),
    [
        (
            "babylm-2026",
            r"Did you mean '.*-full'\? Known: babylm-2025-fast, babylm-2025-full, blimp\.",
        ),
        ("nothing.yaml", r"No such file: nothing\.yaml\."),
        ("blimp: {files: [.], avrage: items}", r"own.yaml: blimp: .*unknown field avrage"),
        (
            "blimp: {files: [.], ties: mean}",
            r"own.yaml: blimp: ties: .*'mean'.* those of --task completions",
        ),
        ("blimp: [", r"--suite must name a YAML file, but .*own.yaml: line 1"),
        ("../a: {files: [x]}", r"own.yaml: .*expected the name of a file"),
        ("a: {files: [x]}", r"no set of --suite .*own.yaml could be evaluated. See the lines"),
    ],
)
def test_suites_that_cannot_be_read_are_one_line(runs, blimp, tmp_path, capsys, suite, message):
    if ":" in suite:
        (tmp_path / "own.yaml").write_text(suite)
        suite = str(tmp_path / "own.yaml")
    assert main([str(blimp), "--suite", suite, "--path", str(runs / "mlm")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and re.search(message, error), error
