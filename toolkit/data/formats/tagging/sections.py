"""Files of tagged text, and sections of the Penn Treebank."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from toolkit.common.errors import ToolkitError


class Sections:
    """Numbers and ranges of them: `0-18`, `00,02-05` are sections, `0001-0139` files."""

    def __init__(self, option: str, given: str) -> None:
        self.option, self.given = option, given
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

    def select(self, files: Sequence[Path], names: str) -> list[Path]:
        """The files among those of `names` that belong to it."""
        if found := [file for file in files if self.contain(file)]:
            return found
        raise ToolkitError(
            f"{self.option} {self.given} selects none of the {len(files)} files of {names}. A "
            f"section is two digits, a folder or the front of wsj_0123; four digits are a file."
        )

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
