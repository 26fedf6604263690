"""Links from the tables of other toolkits' options to the entries of ours."""

from __future__ import annotations

import re
from functools import cache

from toolkit.cli.toolkit import COMMANDS
from tools.docs_site.catalog import CatalogEntry, list_entries
from tools.docs_site.component_pages import COMPONENT_PAGES
from tools.docs_site.option_entries import anchor
from tools.docs_site.option_pages import FOLDER

TABLE = re.compile(r"<!-- table: .*?<!-- end -->", re.S)
CELL = re.compile(
    r"^(?P<other>\| [^|]+ \| )(?P<code>`(?P<flag>--[\w.-]+)[^`]*`)"
    r"(?= of `toolkit-(?P<word>\w+)`| \|)",
    re.M,
)


def link_options(markdown: str) -> str:
    """The text of a page with links in the second column of its tables of options."""
    return TABLE.sub(lambda table: CELL.sub(link_cell, table[0]), markdown)


def link_cell(cell: re.Match[str]) -> str:
    target = targets().get((cell["flag"], cell["word"] or "train"))
    return f"{cell['other']}[{cell['code']}](../{target})" if target else cell[0]


@cache
def targets() -> dict[tuple[str, str], str]:
    """Flag and command -> page and anchor of its first entry."""
    found: dict[tuple[str, str], str] = {}
    for entry in list_entries():
        word = entry.section if entry.section in COMMANDS else "train"
        found.setdefault((entry.flag, word), f"{FOLDER}/{page_of(entry)}.md#{anchor(entry)}")
    return found


def page_of(entry: CatalogEntry) -> str:
    """Name of the page that has the entry."""
    sections = {s: page for page, (_, its) in COMPONENT_PAGES.items() for s in its}
    own = entry.section if entry.section in COMMANDS else "train"
    return sections.get(entry.section, own)
