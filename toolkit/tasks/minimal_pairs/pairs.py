"""Sentence pairs of BLiMP's JSON lines (Warstadt et al. 2020) and of two-column text files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from toolkit.common.enumeration import join_first
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonError, is_json_object, parse
from toolkit.data.rows.read import row_suffix
from toolkit.data.text_files import COMPRESSION_SUFFIXES, raise_at_line, read_text

GOOD, BAD = "sentence_good", "sentence_bad"
JSON_SUFFIXES, TABLE_SUFFIXES = (".jsonl", ".ndjson"), (".tsv",)
FOLDER_ENDINGS = tuple(
    suffix + packed
    for suffix in (*JSON_SUFFIXES, *TABLE_SUFFIXES)
    for packed in COMPRESSION_SUFFIXES
)


class Paradigm(NamedTuple):
    """A set of pairs that isolate one contrast."""

    name: str
    """BLiMP's UID; else the name of the file."""
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
    counts, pairs = Counter[Paradigm](), list[MinimalPair]()
    for pair in (pair for file in files for pair in read_pair_file(file)):
        counts[pair.paradigm] += 1
        if limit is None or counts[pair.paradigm] <= limit:
            pairs.append(pair)
    equal = [pair for pair in pairs if pair.good == pair.bad]
    if len(equal) == len(pairs):
        raise ToolkitError(
            f"{equal[0].file}:{equal[0].line}: the two sentences must differ, but are equal, as in "
            f"all pairs. Check the order of the columns."
        )
    if equal:
        plural = "s have" if len(equal) > 1 else " has"
        remarks.append(
            f"{len(equal)} pair{plural} equal sentences and will be counted as ties; first "
            f"{equal[0].file}:{equal[0].line}."
        )
    return PairSet(pairs, remarks)


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
    first = read_text(file, may_be_empty=True).lstrip().partition("\n")[0]
    return is_json_object(first) and not {GOOD, BAD} & parse(first).keys()


def read_pair_file(file: Path) -> Iterator[MinimalPair]:
    """The pairs of one file; blank lines and a header are skipped."""
    lines = [line.rstrip("\r") for line in read_text(file).split("\n")]
    is_json = row_suffix(file) in JSON_SUFFIXES or is_json_object(lines[0])
    parse: Callable[[Path, int, str], MinimalPair] = parse_object if is_json else parse_row
    found = False
    for number, line in enumerate(lines, 1):
        if line.strip() and not (number == 1 and line.split("\t") == [GOOD, BAD]):
            pair, found = parse(file, number, line), True
            for sentence in pair.sentences:
                if not sentence.strip():
                    raise_at_line(file, number, "a sentence is empty. Correct or remove the pair.")
            yield pair
    if not found:
        raise ToolkitError(f"{file} must hold sentence pairs, but holds none.")


def parse_object(file: Path, number: int, line: str) -> MinimalPair:
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
    names = (GOOD, BAD, "UID", "linguistics_term", "field")
    values = [row.get(name, "") for name in names]
    for name, value in zip(names, values, strict=True):
        if not isinstance(value, str):
            raise_at_line(file, number, f"{name} must be a string, but is {str(value)[:40]}.")
    good, bad, paradigm, phenomenon, field = values
    # BLiMP writes the field of one paradigm as syntax/semantics
    names_of = Paradigm(paradigm or stem(file), phenomenon, field.replace("/", "_"))
    return MinimalPair(good, bad, names_of, file, number)


def parse_row(file: Path, number: int, line: str) -> MinimalPair:
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
    return MinimalPair(cells[0].strip(), cells[1].strip(), Paradigm(stem(file)), file, number)


def stem(file: Path) -> str:
    """adjunct_island of adjunct_island.jsonl.gz."""
    return file.name.partition(".")[0]


def _raise_invalid(file: Path, number: int, found: str) -> NoReturn:
    raise_at_line(
        file, number, f"expected a JSON object with {GOOD} and {BAD}, {found}. Correct the line."
    )
