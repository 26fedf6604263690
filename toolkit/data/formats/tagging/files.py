"""Which files a split is read from, and the reader for their format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess_formats import TaggingOptions
from toolkit.data.formats.tagging.conll_columns import read_conll_columns
from toolkit.data.formats.tagging.conllu import ConlluOptions, read_conllu
from toolkit.data.formats.tagging.penn_treebank import read_penn_treebank
from toolkit.data.formats.tagging.sentence import TaggedSentence

SUFFIXES = {
    "conllu": (".conllu",),
    "ptb": (".mrg", ".pos"),
    "columns": (".txt", ".tsv", ".tagged"),
}
COMPRESSION_SUFFIXES = ("", ".gz", ".xz")


def read_file(
    path: Path, config: TaggingOptions, *, untagged: bool = False
) -> Iterator[TaggedSentence]:
    """The sentences of one file; words may lack their tag where `untagged` is set.

    In the Penn Treebank they never do.
    """
    if config.format == "conllu":
        return read_conllu(path, ConlluOptions(config.tag, config.empty_nodes, untagged))
    if config.format == "ptb":
        return read_penn_treebank(path)
    return read_conll_columns(path, untagged=untagged)


def list_tagged_files(split: str, config: TaggingOptions) -> list[Path]:
    """The files that an option such as --trainpref names, folders searched through."""
    option, given = f"{split}pref", getattr(config, f"{split}pref")
    sections = getattr(config, f"{split}_sections")
    files = [
        file for name in given.split(",") if name for file in expand_path(option, name, config)
    ]
    if not sections:
        return files
    wanted = Sections(f"{split}_sections", sections)
    found = [file for file in files if wanted.contain(file)]
    if not found:
        raise ToolkitError(
            f"{split}_sections must choose files of {given}, but {sections} chooses none of "
            f"{len(files)}. A section is two digits, a folder or the front of wsj_0123; four "
            f"digits are a file."
        )
    return found


def expand_path(option: str, name: str, config: TaggingOptions) -> list[Path]:
    """The file of this name, or those of the format below the folder."""
    path, endings = Path(name), SUFFIXES[config.format]
    if path.is_dir():
        wanted = tuple(ending + packed for ending in endings for packed in COMPRESSION_SUFFIXES)
        found = sorted(file for file in path.rglob("*") if file.name.endswith(wanted))
        if not found:
            raise ToolkitError(
                f"{option} folder {path} must hold files ending in {', '.join(endings)}, but "
                f"holds none. Name the files themselves."
            )
        return found
    if not path.is_file():
        raise ToolkitError(
            f"{option} must name existing files, but {path} is not there. Correct the path "
            f"(several are separated by commas, without spaces)."
        )
    return [path]


class Sections:
    """Numbers and ranges of them: `0-18`, `00,02-05` are sections, `0001-0139` files."""

    def __init__(self, option: str, given: str) -> None:
        self.sections: set[int] = set()
        self.files: set[int] = set()
        for part in given.split(","):
            if not (match := re.fullmatch(r"\s*(\d{1,4})(?:-(\d{1,4}))?\s*", part)):
                raise ToolkitError(
                    f"{option} must be numbers and ranges, as 0-18 or 0001-0139, but has {part!r}."
                )
            first, last = match[1], match[2] or match[1]
            chosen = self.files if max(len(first), len(last)) > 2 else self.sections
            chosen.update(range(int(first), int(last) + 1))

    def contain(self, path: Path) -> bool:
        """Whether it is one of the files, or of the sections.

        The section of wsj_0123.mrg is 01 wherever it lies, that of another file its folder's.
        """
        number = re.search(r"(\d{2})(\d{2})(?!.*\d{4})", path.name)
        if number and int(number[0]) in self.files:
            return True
        named = re.search(r"wsj_(\d{2})\d{2}", path.name, re.IGNORECASE)
        folders = [part for part in path.parts[:-1] if re.fullmatch(r"\d{1,2}", part)]
        if said := named or (None if folders else number):
            return int(said[1]) in self.sections
        return bool(folders) and int(folders[-1]) in self.sections
