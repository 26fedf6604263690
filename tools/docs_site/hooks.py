"""Hooks of MkDocs: pages from other folders, links between all pages, equations as MathML."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))  # `mkdocs build` finds tools.docs_site from any folder

from tools.docs_site.command_pages import COMMANDS_MARK, list_commands  # noqa: E402
from tools.docs_site.equations import render_equations  # noqa: E402
from tools.docs_site.links import rewrite_links  # noqa: E402
from tools.docs_site.modules import module_pages  # noqa: E402
from tools.docs_site.option_links import link_options  # noqa: E402
from tools.docs_site.option_pages import PAGES_MARK, list_pages, option_pages  # noqa: E402
from tools.docs_site.outside import OUTSIDE_PAGES, list_images  # noqa: E402

GENERATED = {COMMANDS_MARK: list_commands, PAGES_MARK: list_pages}
"""Comment in a page -> the text in its place."""
BOOSTS = {"reference/python/": 0.5, "results/": 0.7}
"""Pages below -> weight in the search: guides and options of the same name come first."""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    for source, page in OUTSIDE_PAGES.items():
        text = (REPOSITORY / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    for page, text in option_pages().items():
        files.append(File.generated(config, page, content=text))
    for source, target in list_images(REPOSITORY).items():
        content = (REPOSITORY / source).read_bytes()
        files.append(File.generated(config, target, content=content))
    for page, text in module_pages(REPOSITORY).items():
        level = InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, page, content=text, inclusion=level))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    for mark, generate in GENERATED.items():
        if mark in markdown:
            markdown = markdown.replace(mark, generate())
    markdown = link_options(markdown)
    for folder, boost in BOOSTS.items():
        if page.file.src_uri.startswith(folder):
            page.meta.setdefault("search", {"boost": boost})
    return rewrite_links(markdown, page.file.src_uri, config.repo_url or "")


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    return render_equations(html)
