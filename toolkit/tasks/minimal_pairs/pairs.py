"""The sentence pairs of a file: BLiMP's JSON lines (Warstadt et al. 2020), or two columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

from toolkit.common.errors import ToolkitError, join_first
from toolkit.common.json_files import JsonError, is_json_object, parse
from toolkit.data.rows.read import row_suffix
from toolkit.data.text_files import raise_at_line, read_text

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
    lines = [line.rstrip("\r") for line in read_text(file).split("\n")]
    is_json = row_suffix(file) in JSON_SUFFIXES or is_json_object(lines[0])
    parse: Callable[[Path, int, str, str], MinimalPair] = parse_object if is_json else parse_row
    found = False
    for number, line in enumerate(lines, 1):
        if not line.strip() or (not found and is_header(file, number, line)):
            continue
        pair, found = parse(file, number, line, name), True
        for sentence in pair.sentences:
            if not sentence.strip():
                raise_at_line(file, number, "a sentence is empty. Correct or remove the pair.")
        yield pair
    if not found:
        raise ToolkitError(f"{file} must hold sentence pairs, but holds none.")


def is_header(file: Path, number: int, line: str) -> bool:
    """Whether a line names the two columns; raises if the worse sentence is first."""
    names = [name.strip().lower() for name in line.split("\t")]
    if names == [BAD, GOOD]:
        raise_at_line(file, number, f"{GOOD} must be the first column. Swap the columns.")
    return names == [GOOD, BAD]


def parse_object(file: Path, number: int, line: str, name: str) -> MinimalPair:
    """The pair of a JSON object; its other fields are ignored."""
    try:
        row = parse(line)
    except JsonError as error:
        _raise_invalid(file, number, f"found {error}")
    if not isinstance(row, dict) or not {GOOD, BAD} <= row.keys():
        fields = join_first([*row], 6) if isinstance(row, dict) else ""
        _raise_invalid(
            file, number, f"found the fields {fields}" if fields else f"found {line[:40]}"
        )
    keys = (GOOD, BAD, "UID", "linguistics_term", "field")
    values = [row.get(key, "") for key in keys]
    for key, value in zip(keys, values, strict=True):
        if not isinstance(value, str):
            raise_at_line(file, number, f"{key} must be a string, but is {str(value)[:40]}.")
    good, bad, paradigm, phenomenon, field = values
    # BLiMP writes the field of one paradigm as syntax/semantics
    names_of = Paradigm(paradigm or name, phenomenon, field.replace("/", "_"))
    return MinimalPair(good, bad, names_of, file, number)


def parse_row(file: Path, number: int, line: str, name: str) -> MinimalPair:
    """The pair of a line with two columns."""
    cells = line.split("\t")
    if len(cells) != 2:
        raise_at_line(
            file,
            number,
            f"expected two sentences separated by a tab, found {len(cells)} "
            f"column{'s' * (len(cells) > 1)}. "
            + ("Keep two." if len(cells) > 2 else "Files ending in .jsonl may hold JSON lines."),
        )
    return MinimalPair(cells[0].strip(), cells[1].strip(), Paradigm(name), file, number)


def _raise_invalid(file: Path, number: int, found: str) -> NoReturn:
    raise_at_line(
        file, number, f"expected a JSON object with {GOOD} and {BAD}, {found}. Correct the line."
    )
