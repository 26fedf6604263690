"""`--json -` of every command that yields figures: standard output holds JSON lines and no more."""

import importlib
import json

import pytest

CASES = {  # command, words, events in their order, keys of the last
    "preprocess": (
        "--trainpref {tmp}/a.txt --destdir {tmp}/d --vocab-size 30 --workers 1",
        ["split", "end"],
        {"tokens", "symbols", "workers", "seconds", "tokens_per_second", "destdir"},
    ),
    "validate": (
        "{data} --path {run} --valid-subset valid,train --num-workers 0",
        ["valid", "valid"],
        {"checkpoint", "subset", "loss", "ppl", "accuracy", "examples"},
    ),
    "generate": (
        "--path {run} --input {tmp}/gaps.txt",
        ["answer", "answer", "end"],
        {"lines", "noted", "seconds", "lines_per_second"},
    ),
    "inspect": (
        "{data} {run} --verify",
        ["column", "column", "checkpoint"],
        {"architecture", "task", "update", "parameters", "best", "verified"},
    ),
    "plot": ("curve {run} --output {tmp}/c.png", ["curve", "curve"], {"metric", "updates", "mean"}),
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
    "inspect flops": (
        "--flops --arch bert_tiny --max-update 9",
        [*["part"] * 6, "flops"],
        {"forward", "backward", "update", "updates", "run"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_standard_output_holds_json_lines_and_nothing_else(case, data, trained, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("the cat sat on a mat\nhow far dogs run\n" * 20)
    (tmp_path / "gaps.txt").write_text("the [MASK] sat\nno gap\n")
    words, events, keys = CASES[case]
    places = {"tmp": tmp_path, "data": data, "run": trained}
    argv = [word.format(**places) for word in words.split(" ")]
    main = importlib.import_module(f"toolkit.cli.{case.split(' ')[0]}").main
    assert main([*argv, "--json", "-"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["event"] for record in records] == events
    assert keys <= records[-1].keys()


def test_figures_of_a_split_are_whole_numbers_of_what_it_holds(data, capsys):
    importlib.import_module("toolkit.cli.inspect").main([str(data), "--json", "-"])
    train = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (train["split"], train["column"], train["items"]) == ("train", "tokens", 76)
    assert train["mean"] == train["tokens"] / 76 and train["unknown_rate"] == 0.0
