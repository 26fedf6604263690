"""Sentence pairs of files, and the results on them, also by field, phenomenon and paradigm.

The files are BLiMP's JSON lines (Warstadt et al. 2020), or have two columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import FloatArray
from toolkit.common.errors import ToolkitError, join_first
from toolkit.common.json_files import JsonObject
from toolkit.data.records import (
    begins_with_json,
    read_json_lines,
    read_tab_cells,
    row_suffix,
)
from toolkit.data.text_files import COMPRESSION_SUFFIXES, raise_at_line, whole_file
from toolkit.metrics.classification import pair_accuracy
from toolkit.reporting.tables import Cell, Table

GOOD, BAD = "sentence_good", "sentence_bad"
JSON_SUFFIXES = (".jsonl", ".ndjson")


class Paradigm(NamedTuple):
    """A set of pairs that isolate one contrast."""

    name: str
    """BLiMP's UID; else the name of the file, without endings if no other file has it."""
    phenomenon: str = ""
    """BLiMP's linguistics_term; empty if unknown."""
    field: str = ""
    """Field of linguistics, such as morphology; empty if unknown."""


class MinimalPair(NamedTuple):
    """Two sentences of which the first is acceptable, or better."""

    good: str
    bad: str
    paradigm: Paradigm
    file: Path
    line: int


def read_pair_file(file: Path, name: str) -> Iterator[MinimalPair]:
    """The pairs of one file, a paradigm with this name unless the lines name their own.

    Other fields of JSON objects, blank lines and a header are skipped.
    """
    is_json = row_suffix(file) in JSON_SUFFIXES or begins_with_json(file)
    found = False
    for record in (read_json_lines if is_json else read_tab_cells)(whole_file(file)):
        if is_json:
            good, bad = record.text(GOOD), record.text(BAD)
            named = ("UID", "linguistics_term", "field")
            found_names = [record.text(it) if it in record.values else "" for it in named]
            # BLiMP writes the field of one paradigm as syntax/semantics
            paradigm, phenomenon, field = *found_names[:2], found_names[2].replace("/", "_")
            names = Paradigm(paradigm or name, phenomenon, field)
        else:
            cells = [cell.strip() for cell in record.values]
            lower = [cell.lower() for cell in cells]
            if not found and lower == [BAD, GOOD]:
                raise record.error(f"{GOOD} must be the first column. Swap the columns.")
            if not any(cells) or (not found and lower == [GOOD, BAD]):
                continue
            if len(cells) != 2:
                raise record.error(
                    f"expected two sentences separated by a tab, found {len(cells)} "
                    f"column{'s' * (len(cells) > 1)}. "
                    + ("Keep two." if cells[2:] else "Files ending in .jsonl may hold JSON lines.")
                )
            (good, bad), names = cells, Paradigm(name)
        if not (good.strip() and bad.strip()):
            raise record.error("a sentence is empty. Correct or remove the pair.")
        found = True
        yield MinimalPair(good, bad, names, record.file, record.line)
    if not found:
        raise ToolkitError(f"{file} must hold sentence pairs, but holds none.")


FOLDER_ENDINGS = tuple(
    suffix + packed for suffix in (*JSON_SUFFIXES, ".tsv") for packed in COMPRESSION_SUFFIXES
)
"""Endings of the files that a folder stands for."""


def read_pairs(
    names: Sequence[str], limit: int | None = None
) -> tuple[list[MinimalPair], list[str]]:
    """The pairs of files and folders, of each paradigm the first `limit`; and remarks."""
    remarks: list[str] = []
    files = [file for name in names for file in list_pair_files(Path(name), remarks)]
    if duplicate := next((file for file, count in Counter(files).items() if count > 1), None):
        raise ToolkitError(f"{duplicate} must be named once, but is named twice.")
    stems = {file: file.name.partition(".")[0] for file in files}
    alike = Counter(stems.values())
    first: dict[str, MinimalPair] = {}
    pairs, counts = [], Counter[str]()
    for file, stem in stems.items():
        for pair in read_pair_file(file, stem if alike[stem] == 1 else str(file)):
            before = first.setdefault(pair.paradigm.name, pair)
            if pair.paradigm != before.paradigm:
                raise_at_line(
                    file,
                    pair.line,
                    f"paradigm {pair.paradigm.name} must have one linguistics_term and field, as "
                    f"in {before.file}:{before.line}, but has others. Name paradigms by UID.",
                )
            counts[pair.paradigm.name] += 1
            if limit is None or counts[pair.paradigm.name] <= limit:
                pairs.append(pair)
    equal = [pair for pair in pairs if pair.good == pair.bad]
    if len(equal) == len(pairs):
        raise ToolkitError(
            f"{equal[0].file}:{equal[0].line}: the two sentences must differ, but are equal, as in "
            f"all pairs that were read. Each line needs an acceptable sentence and another one."
        )
    if equal:
        plural = "s have" if len(equal) > 1 else " has"
        remarks.append(
            f"{len(equal)} pair{plural} equal sentences and will be counted as ties; first "
            f"{equal[0].file}:{equal[0].line}."
        )
    return pairs, remarks


def list_pair_files(path: Path, remarks: list[str]) -> list[Path]:
    """The file, or the files of a folder without those that hold something else."""
    if not path.is_dir():
        if not path.is_file():
            raise ToolkitError(f"No such file or directory: {path}.")
        return [path]
    files = [f for f in sorted(path.iterdir()) if f.name.endswith(FOLDER_ENDINGS) and f.is_file()]
    others = []
    for file in files:
        first = None
        if row_suffix(file) in JSON_SUFFIXES:
            first = next(read_json_lines(whole_file(file)), None)
        if first and isinstance(first.values, dict) and not {GOOD, BAD} & first.values.keys():
            others.append(file)
    if others:
        names = join_first([file.name for file in others], 3)
        remarks.append(f"Skipped {names} in {path}: no {GOOD} or {BAD}.")
    if len(files) == len(others):
        raise ToolkitError(
            f"{path} must hold .jsonl files with {GOOD} and {BAD}, or .tsv files with two columns, "
            f"but holds none. Name the files themselves."
        )
    return [file for file in files if file not in others]


METRICS = ("pairs", "accuracy", "standard_error", "ties")
MAX_LISTED_PARADIGMS = 12
"""With more, a table has rows for phenomena only, unless --paradigms asks for all."""


def summarize_pairs(pairs: Sequence[MinimalPair], results: FloatArray) -> JsonObject:
    """Accuracies with their standard errors, for JSON; a result is 1, 1/2 (a tie) or 0."""
    every = list(dict.fromkeys(pair.paradigm for pair in pairs))
    number = {paradigm: index for index, paradigm in enumerate(every)}
    strata = np.array([number[pair.paradigm] for pair in pairs])

    def measure(paradigms: Sequence[Paradigm]) -> JsonObject:
        kept = np.isin(strata, [number[it] for it in paradigms])
        measured = pair_accuracy(results[kept], strata[kept])
        return {"paradigms": len(paradigms), **measured._asdict()}

    groups: dict[str, list[JsonObject]] = {"field": [], "phenomenon": []}
    for key, rows in groups.items():
        for name in sorted({getattr(it, key) for it in every} - {""}):
            members = [it for it in every if getattr(it, key) == name]
            rows.append({"name": name, **measure(members)})
            if key == "phenomenon":  # BLiMP assigns two fields to some
                rows[-1]["field"] = Counter(it.field for it in members).most_common(1)[0][0]
    return {
        "overall": measure(every),
        "fields": groups["field"],
        "phenomena": groups["phenomenon"],
        "paradigms": [{**it._asdict(), **measure([it])} for it in every],
    }


def describe_scoring(scoring: str, normalization: str) -> str:
    """`log_likelihood`; `log_likelihood, per token` if normalized by the number of tokens."""
    return scoring + ", per token" * (normalization == "tokens")


def make_tables(record: JsonObject, *, paradigms: bool) -> list[Table]:
    """Phenomena and overall accuracy; paradigms too on request, or if they are few."""
    scoring = describe_scoring(record["scoring"], record["normalization"])
    caption, overall = f"{record['path']}: {scoring}", {"name": "overall", "field": ""}
    rows = sorted(record["phenomena"], key=lambda row: (row["field"], row["name"]))
    rows.append({**overall, **record["overall"]})
    columns = ("phenomenon", "field", "paradigms", *METRICS)
    tables = [make_table(columns, ("name", *columns[1:]), rows, caption)]
    if paradigms or 1 < len(record["paradigms"]) <= MAX_LISTED_PARADIGMS:
        columns = ("paradigm", "phenomenon", "field", *METRICS)
        tables.insert(0, make_table(columns, ("name", *columns[1:]), record["paradigms"], caption))
    return tables


def make_table(
    columns: Sequence[str], keys: Sequence[str], rows: Sequence[JsonObject], caption: str
) -> Table:
    """A table of some keys of JSON objects."""
    cells: list[list[Cell]] = []
    for row in rows:
        cells.append([])
        for key in keys:
            value = row[key]
            if key in ("accuracy", "standard_error"):  # 4 decimals distinguish 10,000 pairs
                value = f"{value:.4f}"
            cells[-1].append(f"{value:,}" if isinstance(value, int) else value)
    names = [name.replace("_", " ") for name in columns]
    return Table(columns=names, rows=cells, caption=caption, right_align=names[-len(METRICS) :])
