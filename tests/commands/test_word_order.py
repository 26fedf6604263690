import json

import pytest

from toolkit import build_model
from toolkit.cli.inspect import main
from toolkit.data.tokenizers.tokenizer import Tokenizer


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on a mat\n\nhow far dogs run\nthe mat\n" * 5)
    return path


def test_word_order_of_a_data_folder_is_a_table_and_records(data, finished, tmp_path, capsys):
    target = tmp_path / "order.jsonl"
    argv = [str(finished), "--word-order", str(data), "--shuffles", "2", "--json", str(target)]
    assert main(argv) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{finished}: ") and lines[0].endswith(" tokens of 18 sentences")
    names = ["original", "windows of 2", "windows of 4", "windows of 8", "whole sentence"]
    assert [line.partition("  ")[0] for line in lines[2:]] == names
    records = [json.loads(line) for line in target.read_text().splitlines()]
    assert [record["window"] for record in records] == [1, 2, 4, 8, None]
    assert [record["shuffles"] for record in records] == [1, 2, 2, 2, 2]
    assert records[0]["increase"] == 0 and records[0]["perplexity_ratio"] == 1


def test_word_order_of_a_text_file_compares_checkpoints(finished, trained, text, capsys):
    argv = [str(finished), str(trained), "--word-order", str(text), "--limit", "7"]
    assert main(argv) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(" tokens of 7 sentences")
    first, second = lines[-2:]
    assert first.split()[1:] == second.split()[1:] and lines[-3].startswith("checkpoint")


def test_word_order_reports_mistakes(data, finished, text, tmp_path, capsys):
    names = {"run": finished, "data": data, "text": text}
    tokenizer = Tokenizer.train(["the cat sat on a mat"] * 3, vocabulary_size=20)
    for name, task in (("rtd", "rtd"), ("other", "mlm")):
        names[name] = tmp_path / name
        build_model("bert_tiny", tokenizer=tokenizer, task=task, layers=1).save(names[name])
    for argv, message in (
        ("{run} --word-order no/file", "No such file: no/file. Correct the path."),
        ("{run} --word-order {run}", "toolkit-inspect: {run} is a save folder, not a data folder."),
        ("{rtd} --word-order {text}", "language_modeling; {rtd} was trained with rtd."),
        ("{other} --word-order {data}", "the data must have the tokenizer of {other}"),
    ):
        assert main(argv.format(**names).split(" ")) == 2
        error = capsys.readouterr().err
        assert message.format(**names) in error and error.count("\n") == 1
