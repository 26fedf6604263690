"""The report of toolkit-preprocess: a table with one row per split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

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
    total = sum(report.total for report in splits.values())
    rate = total / max(seconds, 1e-9)
    console.print(
        f"{total:,} {source.unit} in {seconds:.1f} s with {workers} worker{'s' * (workers > 1)}: "
        f"{rate:,.0f} {source.unit}/s",
        **PLAIN,
    )
    speed = {"seconds": seconds, "workers": workers, f"{source.unit}_per_second": rate}
    facts = {"destdir": destdir, **source.summary(tokenizer), source.unit: total}
    output.write("end", {**facts, **speed})


def format_cell(value: int | str) -> str:
    """A cell as text; numbers have thousands separators."""
    return value if isinstance(value, str) else f"{value:,}"
