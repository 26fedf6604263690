"""Events of every command on standard output with `--json -`, as the page on JSON lists them."""

import importlib
import json
import re

import pytest

CASES = {  # command, words, events in their order, keys of the last
    "preprocess text": (
        "--trainpref {tmp}/a.txt --destdir {tmp}/d --vocab-size 30 --workers 1",
        ["split", "end"],
        {"tokens", "symbols", "workers", "seconds", "tokens_per_second", "destdir"},
    ),
    "preprocess columns": (
        "--format columns --trainpref {tmp}/tags.txt --destdir {tmp}/d --workers 1",
        ["split", "end"],
        {"known_words", "tags"},
    ),
    "preprocess tsv": (
        "--format tsv --trainpref {tmp}/table.tsv --text-columns text --label-column mood "
        "--on-malformed skip --tokenizer words --destdir {tmp}/d --workers 1",
        ["split", "left_out", "end"],
        {"symbols", "rows"},
    ),
    "preprocess squad": (
        "--format squad --trainpref {tmp}/squad.json --tokenizer words --on-malformed skip "
        "--destdir {tmp}/d --workers 1",
        ["split", "left_out", "miss", "end"],
        {"questions"},
    ),
    "preprocess parallel": (
        "--source-lang en --target-lang de --trainpref {tmp}/pairs --tokenizer words "
        "--destdir {tmp}/d --workers 1",
        ["split", "end"],
        {"symbols", "target_symbols"},
    ),
    "validate": (
        "{data} --path {run} --valid-subset valid,train --num-workers 0",
        ["valid", "valid"],
        {"checkpoint", "subset", "loss", "ppl", "accuracy", "examples"},
    ),
    "generate fill-mask": (
        "--path {run} --input {tmp}/gaps.txt",
        ["answer", "answer", "end"],
        {"lines", "noted", "seconds", "lines_per_second"},
    ),
    "generate surprisal": (
        "surprisal --path {run} --input {tmp}/gaps.txt",
        ["answer", "answer", "end"],
        {"lines", "noted", "seconds", "lines_per_second"},
    ),
    "inspect": (
        "{data} {run} --verify",
        ["column", "column", "checkpoint"],
        {"architecture", "task", "update", "parameters", "best", "verified"},
    ),
    "plot curve": (
        "curve {run} --output {tmp}/c.png",
        ["curve", "curve"],
        {"metric", "updates", "mean"},
    ),
    "plot kernels": (
        "kernels --path {run} --sentences {tmp}/a.txt --output {tmp}/k.png",
        ["kernel", "kernel"],
        {"layer", "kernel", "offsets", "mean", "deviation"},
    ),
    "plot attention": (
        "attention --path {run} --sentence cat --output {tmp}/a.png",
        ["sentence", "map", "map", "concentration", "concentration"],
        {"layer", "mean", "near_rate", "sentences"},
    ),
    "plot perturbation": (
        "perturbation --path {run} --sentences {tmp}/pairs.en --output {tmp}/p.png",
        ["difference", "difference"],
        {"word", "distance", "angle"},
    ),
    "plot confusion": (
        "confusion {tmp}/confusion.jsonl --output {tmp}/c.png",
        ["mistake", "end"],
        {"output"},
    ),
    "plot minimal-pairs": (
        "minimal-pairs {tmp}/blimp.jsonl --output {tmp}/p.png",
        ["accuracy", "end"],
        {"output"},
    ),
    "generate score": (
        "score {tmp}/pairs.en {tmp}/pairs.de",
        ["score", "score", "score"],
        {"name", "value"},
    ),
    "average": (
        "{run} --last 2 --output {tmp}/mean",
        ["averaged", "averaged", "end"],
        {"parameters"},
    ),
    "inspect --word-order": (
        "{run} --word-order {tmp}/a.txt --shuffles 1",
        ["word_order"] * 5,
        {"window", "loss", "increase", "standard_error", "perplexity_ratio", "accuracy"},
    ),
    "inspect --flops": (
        "--flops --arch bert_tiny --max-update 9",
        [*["part"] * 6, "flops"],
        {"forward", "backward", "update", "updates", "run"},
    ),
}


SQUAD = {
    "context": "built in 1905, by Anna",
    "qas": [
        {"id": "1", "question": "when", "answers": [{"text": "1905", "answer_start": 9}]},
        {"id": "2", "question": "who", "answers": [{"text": "Anna", "answer_start": 0}]},
    ],
}


@pytest.fixture
def files(data, trained, tmp_path):
    """The places in the words of the cases."""
    (tmp_path / "a.txt").write_text("the cat sat on a mat\nhow far dogs run\n" * 20)
    (tmp_path / "gaps.txt").write_text("the [MASK] sat\nno gap\n")
    (tmp_path / "tags.txt").write_text("the D\ncat N\n\ndogs N\nrun V\n\n")
    (tmp_path / "table.tsv").write_text("text\tmood\na cat\tgood\na dog\tbad\ndogs\n")
    (tmp_path / "squad.json").write_text(json.dumps({"data": [{"paragraphs": [SQUAD]}]}))
    confusion = {"checkpoint": "a", "subset": "valid", "true": ["N", "V"], "predicted": ["N", "V"]}
    event = {"event": "confusion", **confusion, "counts": [[2, 1], [0, 3]]}
    (tmp_path / "confusion.jsonl").write_text(json.dumps(event) + "\n")
    row = {"UID": "wh_island", "linguistics_term": "island_effects", "gpt2": 0.792}
    (tmp_path / "blimp.jsonl").write_text(json.dumps(row) + "\n")
    for language in ("en", "de"):
        (tmp_path / f"pairs.{language}").write_text("the cat\nthe dog\n")
    return {"tmp": tmp_path, "data": data, "run": trained}


@pytest.mark.parametrize("case", CASES)
def test_standard_output_holds_only_json_lines(case, files, capsys, repository):
    words, events, keys = CASES[case]
    argv = [word.format(**files) for word in words.split(" ")]
    main = importlib.import_module(f"toolkit.cli.{case.split(' ')[0]}").main
    assert main([*argv, "--json", "-"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["event"] for record in records] == events
    assert keys <= records[-1].keys()
    page = (repository / "docs/reference/json-output.md").read_text("utf-8")
    for record in records:
        required, optional = documented_keys(page, *case.split(" "), record.pop("event"))
        metrics = re.findall(r"`(\w+)`", page) if case == "validate" else ()
        unknown = {key for key in record.keys() - optional if not key.endswith("_loss")}
        assert unknown - {*metrics} <= required <= record.keys()


def documented_keys(page, command, *words):
    """Required and optional keys of an event in the page's table of a command.

    `words` are the first cell, such as a format, and the event; or the event alone.
    """
    section = re.search(rf"^## [^\n]*toolkit-{command}\b.*?(?=^## |\Z)", page, re.M | re.S)
    rows = [line.split(" | ") for line in section[0].splitlines() if line.startswith("| ")]
    [keys] = [
        keys
        for first, event, keys in rows
        if f"`{words[-1]}`" in event and all(f"`{word}`" in first for word in words[:-1])
    ]
    named = re.sub(r"\([^)]*\)|`<objective>_loss`", "", keys)
    required, _, optional = named.partition("optional:")
    return tuple({*re.findall(r"`(\w+)`", part)} for part in (required, optional))
