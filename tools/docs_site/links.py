"""Links between pages: in the repository they are paths of files, in the site paths of pages."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

from tools.docs_site.outside import SOURCES, site_path

FENCE = re.compile(r"(^```.*?^```)", re.M | re.S)
LINK = re.compile(r"(?P<open>\]\()(?P<target>[^)#:\s]+)(?P<rest>(?:#[^)]*)?\))")


def rewrite_links(markdown: str, page: str, repository_url: str) -> str:
    """The text of a page, its links changed to pages of the site or to files on the Web."""
    folder = posixpath.dirname(SOURCES.get(page, f"docs/{page}"))

    def relative(target: str) -> str:
        return posixpath.relpath(target, posixpath.dirname(page) or ".")

    parts = FENCE.split(markdown)
    parts[::2] = [change_links(text, folder, relative, repository_url) for text in parts[::2]]
    return "".join(parts)


def change_links(text: str, folder: str, to_link: Callable[[str], str], repository_url: str) -> str:
    """Text whose links are relative to a folder of the repository, with other links.

    `to_link` makes a link from the path of a page in the site; other files are on the Web.
    """

    def changed(link: re.Match[str]) -> str:
        source = posixpath.normpath(posixpath.join(folder, link["target"]))
        target = site_path(source)
        found = f"{repository_url}/blob/main/{source}" if target is None else to_link(target)
        return f"{link['open']}{found}{link['rest']}"

    return LINK.sub(changed, text)
