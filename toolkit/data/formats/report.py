"""The report of toolkit-preprocess: a table with one row per split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from toolkit.common.json_files import JsonObject
from toolkit.data.formats.format import Format, SplitReport
from toolkit.data.preprocessing.report import PLAIN
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.reporting.json_output import Output
from toolkit.reporting.tables import Table

Content = TypeVar("Content")


def print_report(
    source: Format[Content, Tokenizer],
    tokenizer: Tokenizer,
    splits: Mapping[str, SplitReport],
    seconds: float,
    workers: int,
    output: Output,
) -> None:
    """Print the table, with notes and speed; write one JSON record per split and one at the end."""
    total = print_splits(source, tokenizer, splits, output)
    facts = {"destdir": source.config.destdir, **source.summary(tokenizer)}
    output.write("end", {**facts, **print_rate(source, total, seconds, workers, output)})


def print_rate(
    source: Format[Content, Tokenizer],
    total: int,
    seconds: float,
    workers: int,
    output: Output,
) -> JsonObject:
    """Print the speed, and return its values for a JSON record."""
    rate = total / max(seconds, 1e-9)
    output.console.print(
        f"{total:,} {source.unit} in {seconds:.1f} s with {workers} worker{'s' * (workers > 1)}: "
        f"{rate:,.0f} {source.unit}/s",
        **PLAIN,
    )
    speed = {"seconds": seconds, "workers": workers, f"{source.unit}_per_second": rate}
    return {source.unit: total, **speed}


def print_splits(
    source: Format[Content, Tokenizer],
    tokenizer: Tokenizer,
    splits: Mapping[str, SplitReport],
    output: Output,
) -> int:
    """Print the table and its notes, and write a JSON record per split; returns the total."""
    console, destdir = output.console, source.config.destdir
    console.print(f"{destdir}: {source.title(tokenizer)}", **PLAIN)
    heads = tuple(next(iter(splits.values())).row)
    rows = [[split, *map(format_cell, report.row.values())] for split, report in splits.items()]
    Table(columns=("split", *heads), rows=rows, right_align=heads).print(console)
    for split, report in splits.items():
        output.write("split", {"split": split, **report.record})
        for event, values in report.events:
            output.write(event, {"split": split, **values})
        for note in report.notes:
            console.print(note, **PLAIN)
    for remark in source.remarks():
        console.print(remark, **PLAIN)
    return sum(report.total for report in splits.values())


def format_cell(value: int | str) -> str:
    """A cell as text; numbers have thousands separators."""
    return value if isinstance(value, str) else f"{value:,}"
