"""Every option has an entry in the site, which its search finds."""

from __future__ import annotations

from collections import defaultdict
from importlib import import_module

import pytest

pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")

from tests.docs_site.search import SiteSearch
from toolkit.cli.toolkit import COMMANDS
from toolkit.common.registry import REGISTRIES
from toolkit.config.command import RUN, CommandGroup
from toolkit.config.declared import Option, list_options
from tools.docs_site.catalog import list_entries
from tools.docs_site.option_entries import anchor
from tools.docs_site.other_names import terms

PAGES = {"arch": "architectures", "task": "tasks", "criterion": "tasks", "format": "formats"}
"""Section of a component -> its page; the others are on the page on optimizers."""
pytestmark = pytest.mark.slow  # builds the site


@pytest.fixture(scope="module")
def search(site):
    return SiteSearch(site)


@pytest.fixture(scope="module")
def titles(search):
    """Page -> the text of each of its headings."""
    found = defaultdict(list)
    for location, section in search.sections.items():
        found[location.partition("#")[0]].append(section["title"])
    return found


def declared(word: str) -> list[Option]:
    command = import_module(f"toolkit.cli.{word}").COMMAND
    commands = command.commands.values() if isinstance(command, CommandGroup) else [command]
    return [option for one in commands for option in one.fixed_options()]


def has_entry(option: Option, titles: list[str]) -> bool:
    """Whether a heading is the flag, or its short form, with or without a term."""
    flags = {entry.flag for entry in list_entries() if entry.option.path == option.path}
    return any(title.startswith(f"<code>{flag}</code>") for title in titles for flag in flags)


@pytest.mark.parametrize("word", COMMANDS)
def test_options_of_a_command_have_entries(word, titles):
    page = titles[f"reference/options/{word}/"]
    assert not [option.path for option in declared(word) if not has_entry(option, page)]
    every = [option.path for option in RUN.command_line_options()]
    assert not [path for path in every if not has_entry_named(path, titles)]


def has_entry_named(path: str, titles: dict[str, list[str]]) -> bool:
    heading = f"<code>--{path.replace('_', '-')}</code>"
    return any(title.startswith(heading) for title in titles["reference/commands/"])


@pytest.mark.parametrize("section", REGISTRIES)
def test_options_of_components_have_entries(section, titles):
    page = titles[f"reference/options/{PAGES.get(section, 'optimizers')}/"]
    registry = REGISTRIES[section]
    options = [
        o for name in registry.builtins for o in list_options(section, registry[name].config)
    ]
    assert not [option.path for option in options if not has_entry(option, page)]
    assert f"<code>--{section.replace('_', '-')}</code>" in "".join(page)


def test_anchors_of_entries_are_unique(search):
    anchors = [location.partition("#")[2] for location in search.sections]
    wrong = [anchor(e) for e in list_entries() if anchors.count(anchor(e)) != 1]
    assert not wrong


def rank(search: SiteSearch, query: str, anchors: set[str]) -> int:
    """Place of the best of these sections: that of its page among the pages that the search shows,
    or its place among the sections of that page, whichever is greater.
    """
    by_page: dict[str, list[str]] = {}
    for location in search.search(query):
        page, _, section = location.partition("#")
        by_page.setdefault(page, []).extend([section] if section else [])
    places = [
        max(place, sections.index(section) + 1)
        for place, (page, sections) in enumerate(by_page.items(), 1)
        for section in anchors & set(sections)
        if page.startswith("reference/")
    ]
    return min(places, default=len(search.sections))


def group_anchors(name: str) -> dict[str, set[str]]:
    """Value of an attribute of the entries -> their anchors."""
    anchors = defaultdict(set)
    for entry in list_entries():
        anchors[getattr(entry, name)].add(anchor(entry))
    return anchors


def check_few(missed: list[str], searched: int) -> None:
    """Fail if more than one in fifty are not found: words of new pages move the results."""
    assert len(missed) <= searched / 50, missed


def test_search_finds_options_by_their_flags_among_the_first_five(search):
    anchors = group_anchors("flag")
    missed = [flag for flag, its in anchors.items() if rank(search, flag, its) > 5]
    check_few(missed, len(anchors))


def test_search_finds_options_by_their_terms_among_the_first_ten(search):
    anchors = group_anchors("key")
    queries = [(key, term) for key in anchors for term in terms(key)]
    missed = [term for key, term in queries if rank(search, term, anchors[key]) > 10]
    check_few(missed, len(queries))
