"""What toolkit-preprocess shows of labeled text: one row a split, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolkit.data.formats.classification.tokenizer import Labels
from toolkit.data.formats.classification.tsv import LabeledTable as Read
from toolkit.data.formats.tagging.report import print_line
from toolkit.reporting.json_output import Output
from toolkit.reporting.tables import Table

HEADS = ("split", "files", "rows", "left out", "empty texts", "tokens", "answers")
SHOWN = 5
"""Rows left out that people are shown of each split; programs are shown all."""


def print_summary(
    destination: str,
    labels: Labels,
    meta: Mapping[str, Any],
    read: Mapping[str, Sequence[Read]],
    seconds: float,
    output: Output,
) -> None:
    """Files, rows, tokens and how often each class comes."""
    terminal, rows, count = output.console, [], 0
    print_line(terminal, f"{destination}: {labels.task}, {', '.join(labels.classes) or 'a number'}")
    for split, entry in meta["splits"].items():
        columns = {name: column["parts"][0] for name, column in entry["columns"].items()}
        tokens = sum(columns[name]["elements"] for name in ("tokens", "second") if name in columns)
        items = columns["tokens"]["items"]
        facts = {name: entry[name] for name in ("malformed", "empty", "unlabeled", "labels")}
        output.write("split", {"split": split, "rows": items, "tokens": tokens, **facts})
        numbers = (len(entry["files"]), items, entry["malformed"], entry["empty"], tokens)
        rows.append([split, *(f"{n:,}" for n in numbers), answers(entry, items)])
        count += items
        left_out(split, read[split], output)
    Table(columns=HEADS, rows=rows, right_align=HEADS[1:-1]).print(terminal)
    print_line(terminal, f"read {count:,} rows in {seconds:.1f} s")
    output.write("end", {"destdir": destination, "rows": count, "seconds": seconds})


def answers(entry: Mapping[str, Any], items: int) -> str:
    if entry["unlabeled"]:
        return "none"
    labels = sorted(entry["labels"].items())
    return ", ".join(f"{name} {count:,}" for name, count in labels) or f"{items:,} numbers"


def left_out(split: str, tables: Sequence[Read], output: Output) -> None:
    problems = [problem for table in tables for problem in table.problems]
    for problem in problems:
        values = {"split": split, "file": str(problem.path), "line": problem.line}
        output.write("left_out", {**values, "what": problem.what})
    for problem in problems[:SHOWN]:
        print_line(output.console, f"left out {problem}")
    if len(problems) > SHOWN:
        print_line(output.console, f"and {len(problems) - SHOWN:,} more rows of {split}")
