"""Sentence pairs of files, and the results on them, also by field, phenomenon and paradigm.

The files are BLiMP's JSON lines (Warstadt et al. 2020), or have two columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import FloatArray
from toolkit.common.errors import ToolkitError, join_first
from toolkit.common.json_files import JsonObject
from toolkit.data.records import (
    Record,
    begins_with_json,
    read_json_lines,
    read_tab_cells,
    row_suffix,
)
from toolkit.data.text_files import COMPRESSION_SUFFIXES, raise_at_line, whole_file
from toolkit.metrics.minimal_pairs import pair_accuracy
from toolkit.reporting.tables import Table

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

    @property
    def sentences(self) -> tuple[str, str]:
        return self.good, self.bad


def read_pair_file(file: Path, name: str) -> Iterator[MinimalPair]:
    """The pairs of one file, a paradigm with this name unless the lines name their own.

    Blank lines and a header are skipped.
    """
    is_json = row_suffix(file) in JSON_SUFFIXES or begins_with_json(file)
    read, parse = (read_json_lines, parse_object) if is_json else (read_tab_cells, parse_row)
    found = False
    for record in read(whole_file(file)):
        cells = [] if is_json else [cell.strip() for cell in record.values]
        if not is_json and (not any(cells) or (not found and is_header(record, cells))):
            continue
        pair, found = parse(record, name), True
        if not all(sentence.strip() for sentence in pair.sentences):
            raise record.error("a sentence is empty. Correct or remove the pair.")
        yield pair
    if not found:
        raise ToolkitError(f"{file} must hold sentence pairs, but holds none.")


def is_header(record: Record, cells: Sequence[str]) -> bool:
    """Whether a line names the two columns; raises if the worse sentence is first."""
    names = [name.lower() for name in cells]
    if names == [BAD, GOOD]:
        raise record.error(f"{GOOD} must be the first column. Swap the columns.")
    return names == [GOOD, BAD]


def parse_object(record: Record, name: str) -> MinimalPair:
    """The pair of a JSON object; its other fields are ignored."""
    good, bad = record.text(GOOD), record.text(BAD)
    named = ("UID", "linguistics_term", "field")
    paradigm, phenomenon, field = (record.text(it) if it in record.values else "" for it in named)
    # BLiMP writes the field of one paradigm as syntax/semantics
    names_of = Paradigm(paradigm or name, phenomenon, field.replace("/", "_"))
    return MinimalPair(good, bad, names_of, record.file, record.line)


def parse_row(record: Record, name: str) -> MinimalPair:
    """The pair of a line with two columns."""
    cells = record.values
    if len(cells) != 2:
        raise record.error(
            f"expected two sentences separated by a tab, found {len(cells)} "
            f"column{'s' * (len(cells) > 1)}. "
            + ("Keep two." if len(cells) > 2 else "Files ending in .jsonl may hold JSON lines.")
        )
    return MinimalPair(cells[0].strip(), cells[1].strip(), Paradigm(name), record.file, record.line)


FOLDER_ENDINGS = tuple(
    suffix + packed for suffix in (*JSON_SUFFIXES, ".tsv") for packed in COMPRESSION_SUFFIXES
)
"""Endings of the files that a folder stands for."""


class PairSet(NamedTuple):
    """The pairs of all files, and remarks for the user."""

    pairs: list[MinimalPair]
    remarks: list[str]


def read_pairs(names: Sequence[str], limit: int | None = None) -> PairSet:
    """The pairs of files and folders; of each paradigm the first `limit`."""
    remarks: list[str] = []
    files = [file for name in names for file in list_pair_files(Path(name), remarks)]
    if duplicate := next((file for file, count in Counter(files).items() if count > 1), None):
        raise ToolkitError(f"{duplicate} must be named once, but is named twice.")
    pairs = list(take_first(read_files(name_paradigms(files)), limit))
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
    return PairSet(pairs, remarks)


def name_paradigms(files: Sequence[Path]) -> dict[Path, str]:
    """a of a.jsonl.gz for each file, or its whole path if several files have this name."""
    stems = {file: file.name.partition(".")[0] for file in files}
    counts = Counter(stems.values())
    return {file: stem if counts[stem] == 1 else str(file) for file, stem in stems.items()}


def read_files(names: Mapping[Path, str]) -> Iterator[MinimalPair]:
    """All pairs; raises a ToolkitError if a paradigm has two phenomena or fields."""
    first: dict[str, MinimalPair] = {}
    for file, name in names.items():
        for pair in read_pair_file(file, name):
            before = first.setdefault(pair.paradigm.name, pair)
            if pair.paradigm != before.paradigm:
                raise_at_line(
                    file,
                    pair.line,
                    f"paradigm {pair.paradigm.name} must have one linguistics_term and field, as "
                    f"in {before.file}:{before.line}, but has others. Name paradigms by UID.",
                )
            yield pair


def take_first(pairs: Iterator[MinimalPair], limit: int | None) -> Iterator[MinimalPair]:
    """The first pairs of each paradigm."""
    counts = Counter[str]()
    for pair in pairs:
        counts[pair.paradigm.name] += 1
        if limit is None or counts[pair.paradigm.name] <= limit:
            yield pair


def list_pair_files(path: Path, remarks: list[str]) -> list[Path]:
    """The file, or the files of a folder without those that hold something else."""
    if not path.is_dir():
        if not path.is_file():
            raise ToolkitError(f"No such file or directory: {path}.")
        return [path]
    files = [f for f in sorted(path.iterdir()) if f.name.endswith(FOLDER_ENDINGS) and f.is_file()]
    others = [file for file in files if holds_other_objects(file)]
    if others:
        names = join_first([file.name for file in others], 3)
        remarks.append(f"Skipped {names} in {path}: no {GOOD} or {BAD}.")
    if len(files) == len(others):
        raise ToolkitError(
            f"{path} must hold .jsonl files with {GOOD} and {BAD}, or .tsv files with two columns, "
            f"but holds none. Name the files themselves."
        )
    return [file for file in files if file not in others]


def holds_other_objects(file: Path) -> bool:
    """Whether the first line is a JSON object that has neither of the two sentences."""
    if row_suffix(file) not in JSON_SUFFIXES:
        return False
    first = next(read_json_lines(whole_file(file)), None)
    return bool(first and isinstance(first.values, dict) and not {GOOD, BAD} & first.values.keys())


METRICS = ("pairs", "accuracy", "standard_error", "ties")
MAX_LISTED_PARADIGMS = 12
"""With more, a table has rows for phenomena only, unless --paradigms asks for all."""


class PairResults:
    """The results of one model: 1, 1/2 (a tie) or 0 for each pair."""

    def __init__(self, pairs: Sequence[MinimalPair], results: FloatArray) -> None:
        self._results = results
        self._paradigms = list(dict.fromkeys(pair.paradigm for pair in pairs))
        number = {paradigm: index for index, paradigm in enumerate(self._paradigms)}
        self._strata = np.array([number[pair.paradigm] for pair in pairs])

    def summary(self) -> JsonObject:
        """Accuracies with their standard errors, for JSON."""
        every = self._paradigms
        return {
            "overall": self._measure(every),
            "fields": self._group(lambda paradigm: paradigm.field),
            "phenomena": [
                {**row, "field": self._main_field(row["name"])}
                for row in self._group(lambda paradigm: paradigm.phenomenon)
            ],
            "paradigms": [{**it._asdict(), **self._measure([it])} for it in every],
        }

    def _group(self, key: Callable[[Paradigm], str]) -> list[JsonObject]:
        """The metrics of the paradigms with each value of the key, except those without one."""
        members: dict[str, list[Paradigm]] = {}
        for paradigm in self._paradigms:
            members.setdefault(key(paradigm), []).append(paradigm)
        return [{"name": it, **self._measure(members[it])} for it in sorted(members) if it]

    def _main_field(self, phenomenon: str) -> str:
        """The field of most paradigms of a phenomenon; BLiMP assigns two to some."""
        fields = Counter(it.field for it in self._paradigms if it.phenomenon == phenomenon)
        return fields.most_common(1)[0][0]

    def _measure(self, paradigms: Sequence[Paradigm]) -> JsonObject:
        """The number of paradigms, and the metrics of their pairs."""
        kept = np.isin(self._strata, [self._paradigms.index(it) for it in paradigms])
        measured = pair_accuracy(self._results[kept], self._strata[kept])
        return {"paradigms": len(paradigms), **measured._asdict()}


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
    cells = [[format_cell(key, row[key]) for key in keys] for row in rows]
    names = [name.replace("_", " ") for name in columns]
    return Table(columns=names, rows=cells, caption=caption, right_align=names[-len(METRICS) :])


def format_cell(key: str, value: str | int | float) -> str | int | float:
    """Accuracies and their errors with four decimals, which distinguish 10,000 pairs."""
    if key in ("accuracy", "standard_error"):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else value
