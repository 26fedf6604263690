"""The sentence pairs of a file: BLiMP's JSON lines (Warstadt et al. 2020), or two columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.data.records import (
    Record,
    begins_with_json,
    read_json_lines,
    read_tab_cells,
    row_suffix,
)
from toolkit.data.text_files import whole_file

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
