"""Sections of the Penn Treebank, which select files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from toolkit.common.errors import ToolkitError


class Sections:
    """Numbers and ranges: `0-18` and `00,02-05` are sections, `0001-0139` are files."""

    def __init__(self, option: str, value: str) -> None:
        self.option, self.value = option, value
        self.sections: set[int] = set()
        self.files: set[int] = set()
        for part in value.split(","):
            if not (match := re.fullmatch(r"\s*(\d{1,4})(?:-(\d{1,4}))?\s*", part)):
                raise ToolkitError(
                    f"{option} must be numbers and ranges, as 0-18 or 0001-0139, but has {part!r}."
                )
            first, last = match[1], match[2] or match[1]
            if int(first) > int(last):
                raise ToolkitError(
                    f"{option} {part.strip()} must begin with the lower number. Write "
                    f"{last}-{first}."
                )
            numbers = self.files if max(len(first), len(last)) > 2 else self.sections
            numbers.update(range(int(first), int(last) + 1))

    def select(self, files: Sequence[Path], names: str) -> list[Path]:
        """The selected files among `files`, which the option `names` lists."""
        if selected := [file for file in files if self.contain(file)]:
            return selected
        raise ToolkitError(
            f"{self.option} {self.value} selects none of the {len(files)} files of {names}. A "
            f"section is two digits, a folder or the front of wsj_0123; four digits are a file."
        )

    def contain(self, path: Path) -> bool:
        """Whether a file is selected, by its number or its section.

        The section of wsj_0123.mrg is 01 in any folder; of other files it is the folder.
        """
        number = re.search(r"(\d{2})(\d{2})(?!.*\d{4})", path.name)
        if number and int(number[0]) in self.files:
            return True
        wsj = re.search(r"wsj_(\d{2})\d{2}", path.name, re.IGNORECASE)
        folders = [part for part in path.parts[:-1] if re.fullmatch(r"\d{1,2}", part)]
        if match := wsj or (None if folders else number):
            return int(match[1]) in self.sections
        return bool(folders) and int(folders[-1]) in self.sections
