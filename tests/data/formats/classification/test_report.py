from __future__ import annotations

from .conftest import RTE, STS


def test_report_counts_classes_and_unlabeled_rows(folder, capsys):
    folder()
    output = capsys.readouterr().out.splitlines()
    assert any(line.endswith(": RTE, entailment, not_entailment") for line in output)
    lines = {line.split()[0]: line for line in output if line.split()}
    assert lines["train"].endswith("entailment 4, not_entailment 4")
    assert lines["test"].endswith("none")


def test_report_counts_numbers(folder, capsys):
    folder(STS, glue_task="STS-B")
    assert "8 numbers" in capsys.readouterr().out


def test_report_lists_the_first_malformed_rows_only(folder, capsys):
    broken = {**RTE, "train.tsv": RTE["train.tsv"] + "x\n" * 9}
    folder(broken, on_malformed="skip")
    output = capsys.readouterr().out
    assert output.count("left out /") == 5 and "and 4 more of train left out" in output
