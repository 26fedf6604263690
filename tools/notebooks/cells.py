"""Cells of a page: its blocks of Python and shell are code, all else is prose.

A `text` block after a code block is its output, and an image after one shows a file that the code
wrote. Both are results: notebooks have their own.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import NamedTuple

from tools.docs_site.links import change_links

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = {
    name: f"docs/start/{name}.md"
    for name in ("tutorial", "attention-variant", "fine-tune-and-predict")
}
"""Notebook -> its page."""
BLOCK = re.compile(
    r"^```(?P<kind>python|sh|text)\n(?P<text>.*?)^```\n|^!\[[^\]]*\]\((?P<image>[^)]+)\)\n",
    re.M | re.S,
)
FILE = re.compile(r"# (\S+\.py)\n")
SHOW = 'from IPython.display import Image\n\nImage("{}")'


class Cell(NamedTuple):
    kind: str
    """prose, python, sh, image or text: a result of the cell above."""
    text: str
    """As in the page, without the fence; of an image the path."""

    @property
    def is_code(self) -> bool:
        return self.kind in ("python", "sh", "image")

    @property
    def source(self) -> str:
        """Text of the notebook's cell."""
        if self.kind == "sh":
            return f"%%bash\n{self.text}"
        if file := FILE.match(self.text):
            return f"%%writefile {file[1]}\n{self.text[file.end() :]}"
        if self.kind == "image":
            return SHOW.format(posixpath.basename(self.text))
        return self.text


def parse_page(text: str) -> list[Cell]:
    """The cells of a page, results included."""
    cells, end = [], 0
    for block in BLOCK.finditer(text):
        cells.append(Cell("prose", text[end : block.start()].strip()))
        kind = block["kind"] or "image"
        cells.append(Cell(kind, (block["text"] or block["image"] or "").rstrip("\n")))
        end = block.end()
    cells.append(Cell("prose", text[end:].strip()))
    return [cell for cell in cells if cell.text or cell.kind == "text"]


def notebook_cells(page: str) -> list[Cell]:
    """The cells of the notebook of a page."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    cells = [cell for cell in parse_page(text) if cell.kind != "text"]
    return [
        cell._replace(text=link_to_site(cell.text, page)) if cell.kind == "prose" else cell
        for cell in cells
    ]


def link_to_site(text: str, page: str) -> str:
    """Prose of a page with complete addresses: notebooks are read anywhere."""
    config = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
    site, repository = (
        re.search(rf"^{name}: (\S+?)/?$", config, re.M)[1] for name in ("site_url", "repo_url")
    )

    def address(target: str) -> str:
        folder = re.sub(r"(index)?\.md$", "", target).rstrip("/")
        return f"{site}/{folder}/"

    return change_links(text, posixpath.dirname(page), address, repository)
