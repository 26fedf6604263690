"""Pages of all options, by command and by kind of component, and the list of these pages."""

from __future__ import annotations

from collections.abc import Iterable

from toolkit.cli.toolkit import COMMANDS
from tools.docs_site.catalog import CatalogEntry, command_modes, entries_of
from tools.docs_site.component_pages import COMPONENT_PAGES, component_page
from tools.docs_site.option_entries import entry_section

FOLDER = "reference/options"
RUN_SECTIONS = ("training", "data", "checkpoint", "logging", "sweep")
UNTITLED = "Options"
"""Heading of options without a group."""
PAGES_MARK = "<!-- option pages -->"
"""Place of the list of these pages in docs/reference/options/index.md."""
SOME_MODES = "An option that only some modes have lists them."


def option_pages() -> dict[str, str]:
    """Path in the site -> Markdown, the pages of toolkit-train first."""
    pages = {"train": run_page()}
    pages |= {name: component_page(*page) for name, page in COMPONENT_PAGES.items()}
    pages |= {word: command_page(word) for word in COMMANDS if word != "train"}
    return {f"{FOLDER}/{name}.md": text for name, text in pages.items()}


def list_pages() -> str:
    """Links to the pages, for the first page of the folder."""
    titles = {
        path: text.partition("\n")[0].removeprefix("# ") for path, text in option_pages().items()
    }
    return "\n".join(f"- [{title}]({path.rpartition('/')[2]})" for path, title in titles.items())


def run_page() -> str:
    parts = [
        "# Options of toolkit-train",
        "Options of every run. [Architectures](architectures.md), [tasks and criteria](tasks.md) "
        "and [optimizers and schedules](optimizers.md) have further ones. `toolkit-train "
        "--help-all` prints the same texts.",
    ]
    for section in RUN_SECTIONS:
        parts += grouped_sections(entries_of(section), f" (section `{section}`)")
    return "\n\n".join(parts)


def command_page(word: str) -> str:
    modes = f" {SOME_MODES}" * (len(command_modes()[word]) > 1)
    formats = " Those of each format are in [data formats](formats.md)." * (word == "preprocess")
    intro = (
        f"What the command does: [toolkit-{word}](../commands.md#toolkit-{word}). `toolkit-{word} "
        f"--help-all` prints the same texts.{modes}{formats}"
    )
    groups = grouped_sections(entries_of(word))
    return "\n\n".join([f"# Options of toolkit-{word}", intro, *groups])


def grouped_sections(entries: Iterable[CatalogEntry], addition: str = "") -> list[str]:
    """The options under the titles of their groups, as --help shows them."""
    groups: dict[str, list[str]] = {}
    for entry in entries:
        title = entry.option.group.capitalize() or UNTITLED
        groups.setdefault(title, []).append(entry_section(entry))
    ordered = sorted(groups.items(), key=lambda group: group[0] != UNTITLED)
    return [f"## {title}{addition}\n\n" + "\n".join(texts) for title, texts in ordered]
