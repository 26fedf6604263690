"""Items of published sets and of tables: options, of which one is right, after an optional prefix.

The fields of a row decide which set it belongs to; `READERS` lists the fields of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.common.errors import ToolkitError, join_first
from toolkit.data.records import (
    Record,
    begins_with_json,
    name_cells,
    read_csv,
    read_json_lines,
    read_tab_cells,
    row_suffix,
)
from toolkit.data.text_files import COMPRESSION_SUFFIXES, whole_file
from toolkit.data.tokenizers.offsets import to_line


class Paradigm(NamedTuple):
    """A set of items that test one contrast."""

    name: str
    """BLiMP's UID; else the name of the file, without endings if no other file has it, and the
    phenomenon if it is another name."""
    phenomenon: str = ""
    """Group of the paradigm, such as BLiMP's linguistics_term; empty if unknown."""
    field: str = ""
    """Field of linguistics, such as morphology; empty if unknown."""


class Item(NamedTuple):
    """Options after their prefixes, of which one is right."""

    prefixes: Sequence[str]
    """Per option, what is read before it and is not scored; mostly empty or equal."""
    options: Sequence[str]
    paradigm: Paradigm
    file: Path
    line: int
    answer: int = 0
    rating: float | None = None
    """A number to correlate with the share of the first option, instead of a right answer."""

    @property
    def texts(self) -> list[str]:
        """Each option with its prefix, with a space in between unless they have white space."""
        return [
            prefix + " " * bool(prefix and not (prefix[-1:] + option[:1]).count(" ")) + option
            for prefix, option in zip(self.prefixes, self.options, strict=True)
        ]


Parts = Mapping[str, Any]
"""Options of an item and, unless they are the defaults, its prefix (one or several), answer
(counted from 0), rating, and the name, phenomenon and field of its paradigm."""
NAMES = {
    "name": ("UID", "paradigm", "subgroup"),
    "phenomenon": ("linguistics_term", "linguistic_phenomenon", "phenomenon", "group"),
    "field": ("field",),
}
"""Part of a paradigm -> fields that may hold it."""


def pair(good: str, bad: str, *prefixes: str, **names: str) -> Callable[[Record, str], Parts]:
    """Two fields with options, after none or two with prefixes; `names` are of the paradigm."""
    return lambda row, stem: {
        "options": [row.text(good), row.text(bad)],
        **({"prefix": [row.text(it) for it in prefixes]} if prefixes else {}),
        **{key: row.text(it) for key, it in names.items()},
    }


EWOK = pair("Target1", "Target1", "Context1", "Context2", name="Domain")
"""The target of the first context after each of both."""
COMPS = pair("property_phrase", "property_phrase", "prefix_acceptable", "prefix_unacceptable")
"""A property after the concept that has it, and after another one."""


def entities(row: Record, stem: str) -> Parts:
    """The first of five contents of a box is right; paradigms are numbers of operations."""
    name, prefix = f"{stem}_{row.values['numops']}_ops", row.text("input_prefix")
    return {"prefix": prefix, "options": row.value("options"), "name": name, "phenomenon": stem}


def wug(row: Record, stem: str) -> Parts:
    """Two sentences in one field, and the share of people who prefer the first one."""
    return {"options": row.text("sentences").split("\t"), "rating": row.value("ratio")}


def solutions(row: Record, stem: str) -> Parts:
    """Solutions of a task that are numbered from 0, as is the right one."""
    options = [row.text(it) for it in sorted(row.values) if it[:-1] == "solution"]
    return {"prefix": row.text("prompt"), "options": options, "answer": row.value("label")}


def last_word(row: Record, stem: str) -> Parts:
    """The last word of a passage."""
    prefix, _, word = row.text("text").strip().rpartition(" ")
    return {"prefix": prefix, "options": [word]}


def table(row: Record, stem: str) -> Parts:
    """Named columns: `answer` is the number of the right option, from 1 on, or rows are rated."""
    names = [it for it in row.values if it.startswith("option_")]
    options = [row.text(it) for it in names] if names else row.value("options")
    parts = {"prefix": row.values.get("prefix", ""), "options": options}
    if "rating" in row.values:
        return parts | {"rating": row.values["rating"]}
    text = str(row.values.get("answer", "missing"))
    if not text.isdecimal():
        raise row.error(
            f"answer must be the number of the right option, from 1 on, but is {text[:40]!r}. Add "
            f"it, or a rating."
        )
    return parts | {"answer": int(text) - 1}


class Reader(NamedTuple):
    """How the rows of some published sets become items."""

    sets: str
    fields: Sequence[str]
    """A row with all of these is read so."""
    read: Callable[[Record, str], Parts]
    others: Sequence[str] | None = None
    """The fields that it may have besides; None for any."""

    def fits(self, names: Set[str]) -> bool:
        """Whether a row has the fields."""
        return names >= {*self.fields} and (
            self.others is None or names <= {*self.fields, *self.others}
        )


READERS = (
    Reader(
        "BLiMP and sets of its form",
        ("sentence_good", "sentence_bad"),
        pair("sentence_good", "sentence_bad"),
    ),
    Reader("MultiBLiMP", ("sen", "wrong_sen"), pair("sen", "wrong_sen")),
    Reader("EWoK", ("Context1", "Context2", "Target1", "Domain"), EWOK),
    Reader("entity tracking", ("input_prefix", "options", "numops"), entities),
    Reader("COMPS", ("prefix_acceptable", "prefix_unacceptable", "property_phrase"), COMPS),
    Reader("WUG", ("sentences", "ratio"), wug),
    Reader("GlobalPIQA", ("prompt", "solution0", "solution1", "label"), solutions),
    Reader("a table", ("option_1",), table),
    Reader("JSON lines", ("options",), table),
    Reader("LAMBADA", ("text",), last_word, others=("domain",)),
)
"""Sets and the fields of their rows, the first that fits. Those of BLiMP, EWoK, entity tracking,
COMPS and WUG are as in read_files.py of github.com/babylm/evaluation-pipeline-2025 and its
successor, babylm-org/babylm-eval; those of MultiBLiMP (github.com/jumelet/multiblimp), GlobalPIQA
and LAMBADA as on the Hugging Face Hub. EWoK compares contexts, as its paper (Ivanova et al. 2024)
and the successor do; the evaluator of 2025 compares targets."""


def find_reader(row: Record) -> Reader:
    """The reader of a row; an error lists the fields found and those that each reader needs."""
    if row.problem or not isinstance(row.values, Mapping):
        row.value("")  # raises
    fits = [it for it in READERS if it.fits(row.values.keys())]
    if not fits:
        found = ", ".join(map(repr, row.values)) or "none"
        needed = "; ".join(f"{', '.join(it.fields)} ({it.sets})" for it in READERS)
        raise row.error(f"its fields are {found}. An item has those of a known set: {needed}.")
    return fits[0]


def read_rows(file: Path) -> Iterator[Record]:
    """JSON objects, or the rows of a table; lines without names of columns are pairs.

    These are two columns, the better sentence first; True or False before a sentence, in turn
    (CLAMS, github.com/aaronmueller/clams); or sentences, of which every second one is better than
    the one before (Zorro, github.com/phueb/Zorro).
    """
    if row_suffix(file) in JSON_SUFFIXES or begins_with_json(file):
        return read_json_lines(whole_file(file))
    if row_suffix(file) == ".csv":
        return read_csv(whole_file(file))
    rows = (it for it in read_tab_cells(whole_file(file)) if any(map(str.strip, it.values)))
    for first in rows:
        lower = [cell.strip().lower() for cell in first.values]
        if any(it.fits(set(lower)) for it in READERS) and len(lower) > 1:
            return name_cells(chain([first._replace(values=lower)], rows))
        return pair_lines(chain([first], rows))
    return rows


def pair_lines(rows: Iterator[Record]) -> Iterator[Record]:
    """Pairs of lines without names; see `read_rows`."""
    held, columns = None, 0
    for row in rows:
        cells = [cell.strip() for cell in row.values]
        columns = columns or len(cells)
        if len(cells) != columns or columns > 2:
            raise row.error(
                f"expected two sentences separated by a tab, found {len(cells)} "
                f"column{'s' * (len(cells) > 1)}. "
                + ("Keep two." if cells[2:] else "Files ending in .jsonl may hold JSON lines.")
            )
        is_label = cells[0].lower() in ("true", "false")
        if columns == 1 or is_label:
            if held is None:
                held = row, cells
                continue
            (row, before), held = held, None
            good_first = is_label and before[0].lower() == "true"
            cells = [before[-1], cells[-1]] if good_first else [cells[-1], before[-1]]
        yield row._replace(values=dict(zip((GOOD, BAD), cells, strict=True)))
    if held:
        raise held[0].error("a line must have a second one as its pair, but the file ends.")


def read_items(file: Path, name: str, first: dict[str, Item]) -> Iterator[Item]:
    """The items of one file, whose paradigms begin with this name unless the rows name their own.

    The first item of each paradigm is added to `first`; the others must have its phenomenon, field
    and kind of answer.
    """
    row = None
    for row in read_rows(file):
        parts = {"prefix": "", **find_reader(row).read(row, name)}
        options, prefix = parts["options"], parts["prefix"]
        if not isinstance(options, list) or not all(isinstance(it, str) for it in options):
            raise row.error("options must be a list of strings. Correct the row.")
        if not all(map(to_line, options)) or not options:
            raise row.error("an option, or a sentence, is empty. Correct or remove the item.")
        names = {key: parts.get(key) or named(row, key) for key in NAMES}
        answer, rating = parts.get("answer", 0), parts.get("rating", 0)
        try:
            answer, rating = int(answer), float(rating) if "rating" in parts else None
        except (TypeError, ValueError) as error:
            raise row.error(
                f"the right answer or the rating must be a number, but is "
                f"{(rating if 'rating' in parts else answer)!r}. Correct the row."
            ) from error
        if rating is None and not 0 <= answer < len(options):
            raise row.error(
                f"the right answer must be one of {len(options)} options, but is number "
                f"{answer + 1}. Correct the row."
            )
        prefixes = prefix if isinstance(prefix, list) else [prefix] * len(options)
        parts_of_name = dict.fromkeys(it for it in (name, names["phenomenon"]) if it)
        paradigm = Paradigm(**{**names, "name": names["name"] or "_".join(parts_of_name)})
        item = Item(prefixes, options, paradigm, row.file, row.line, answer, rating)
        before = first.setdefault(paradigm.name, item)
        if paradigm != before.paradigm:
            fields = [it for key, them in NAMES.items() for it in them if key != "name"]
            found = " and ".join(it for it in fields if it in row.values) or "phenomenon"
            raise row.error(
                f"all items of paradigm {paradigm.name} must have one {found}, as in "
                f"{before.file}:{before.line}, but this one has another. Correct it, or name its "
                f"paradigm in a field {' or '.join(NAMES['name'])}."
            )
        if (rating is None) != (before.rating is None):
            raise row.error("all items of a paradigm need ratings, or none.")
        yield item
    if row is None:
        raise ToolkitError(f"{file} must hold sentence pairs or items, but holds none.")


def named(row: Record, key: str) -> str:
    """Part of the name of a paradigm; BLiMP writes the field of one as syntax/semantics."""
    fields = [it for it in NAMES[key] if it in row.values]
    return row.text(fields[0]).replace("/", "_" if key == "field" else "/") if fields else ""


GOOD, BAD = "sentence_good", "sentence_bad"
JSON_SUFFIXES = (".jsonl", ".ndjson")
FOLDER_ENDINGS = tuple(
    suffix + packed
    for suffix in (*JSON_SUFFIXES, ".tsv", ".csv")
    for packed in COMPRESSION_SUFFIXES
)
"""Endings of the files that a folder stands for; .txt if it holds nothing else."""
ABOUT = ("README", "LICENSE")
"""Files about the others of a folder."""


def read_sets(names: Sequence[str], limit: int | None = None) -> tuple[list[Item], list[str]]:
    """The items of files and folders, of each paradigm the first `limit`; and remarks."""
    remarks: list[str] = []
    files = [file for name in names for file in list_files(Path(name), remarks)]
    if duplicate := next((file for file, count in Counter(files).items() if count > 1), None):
        raise ToolkitError(f"{duplicate} must be named once, but is named twice.")
    stems = {file: file.name.partition(".")[0] for file in files}
    alike = Counter(stems.values())
    first: dict[str, Item] = {}
    items, counts = [], Counter[str]()
    for file, stem in stems.items():
        for item in read_items(file, stem if alike[stem] == 1 else str(file), first):
            counts[item.paradigm.name] += 1
            if limit is None or counts[item.paradigm.name] <= limit:
                items.append(item)
    equal = [item for item in items if len(set(item.texts)) < len(item.texts)]
    if len(equal) == len(items):
        raise ToolkitError(
            f"{equal[0].file}:{equal[0].line}: the options must differ, but are equal, as in all "
            f"items that were read. Each one needs a right option and another one."
        )
    if equal:
        plural = "s have" if len(equal) > 1 else " has"
        remarks.append(
            f"{len(equal)} item{plural} equal options and will be counted as ties; first "
            f"{equal[0].file}:{equal[0].line}."
        )
    return items, remarks


def list_files(path: Path, remarks: list[str]) -> list[Path]:
    """The file, or the files of a folder without those that hold something else."""
    if not path.is_dir():
        if not path.is_file():
            raise ToolkitError(f"No such file or directory: {path}.")
        return [path]
    found = [f for f in sorted(path.iterdir()) if f.is_file()]
    files, others = [f for f in found if f.name.endswith(FOLDER_ENDINGS)], list[Path]()
    texts = [f for f in found if f.stem.upper() not in ABOUT and not f.name.startswith(".")]
    if texts and all(f.suffix == ".txt" for f in texts):  # CLAMS, Zorro
        return texts
    for file in files:
        is_json = row_suffix(file) in JSON_SUFFIXES
        first = next(read_json_lines(whole_file(file)), None) if is_json else None
        if first and isinstance(first.values, dict):
            fields = first.values.keys()
            known = any(it.fits(fields) for it in READERS) or fields & {GOOD, BAD}
            others += [] if known else [file]
    if others:
        names = join_first([file.name for file in others], 3)
        remarks.append(f"Skipped {names} in {path}: its fields are those of no known set.")
    if len(files) == len(others):
        raise ToolkitError(
            f"{path} must hold .jsonl files of a known set, such as with {GOOD} and {BAD}, .tsv "
            f"files with two columns, or .txt files alone, but does not. Name the files themselves."
        )
    return [file for file in files if file not in others]
