"""Links between pages: in the repository they are paths of files, in the site paths of pages."""

from __future__ import annotations

import posixpath
import re

from tools.docs_site.outside import SOURCES, site_path

FENCE = re.compile(r"(^```.*?^```)", re.M | re.S)
LINK = re.compile(r"(?P<open>\]\()(?P<target>[^)#:\s]+)(?P<rest>(?:#[^)]*)?\))")


def rewrite_links(markdown: str, page: str, repository_url: str) -> str:
    """The text of a page, its links changed to pages of the site or to files on the Web."""
    parts = FENCE.split(markdown)
    parts[::2] = [rewrite(text, page, repository_url) for text in parts[::2]]
    return "".join(parts)


def rewrite(text: str, page: str, repository_url: str) -> str:
    folder = posixpath.dirname(SOURCES.get(page, f"docs/{page}"))

    def changed(link: re.Match[str]) -> str:
        source = posixpath.normpath(posixpath.join(folder, link["target"]))
        target = site_path(source)
        if target is None:
            return f"{link['open']}{repository_url}/blob/main/{source}{link['rest']}"
        relative = posixpath.relpath(target, posixpath.dirname(page) or ".")
        return f"{link['open']}{relative}{link['rest']}"

    return LINK.sub(changed, text)
