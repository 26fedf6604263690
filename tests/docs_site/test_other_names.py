from functools import cache

import pytest

from toolkit.common.registry import counterparts, read_other_names
from toolkit.config.names import RESERVED_NAMES
from tools import option_tables
from tools.docs_site.catalog import list_entries
from tools.docs_site.other_names import TOOLS


@cache
def keys() -> set[str]:
    """Of all options; slow to list."""
    names = {path for path in RESERVED_NAMES.values() if path.endswith(".name")}
    return names | {entry.key for entry in list_entries()}


def test_options_of_the_file_exist():
    entries = [entry for tool in TOOLS for entry in read_other_names()[tool].values()]
    named = {entry["key"] for entry in entries if entry.get("key")}
    assert named | read_other_names()["terms"].keys() <= keys()


def test_entries_of_the_file_have_known_fields():
    names = read_other_names()
    assert names.keys() == {"components", "earlier", "terms", *TOOLS}
    fields = {field for tool in TOOLS for entry in names[tool].values() for field in entry}
    assert fields == {"ours", "note", "otherwise", "write", "key", "remark"}


@pytest.mark.parametrize("tool", ["fairseq", "huggingface"])
def test_names_of_the_file_are_those_of_options_or_answered_on_the_command_line(tool):
    ours = {key.rpartition(".")[2] for key in keys()} | RESERVED_NAMES.keys()
    assert read_other_names()[tool].keys() <= ours | counterparts().keys()


@pytest.mark.parametrize("page", option_tables.PAGES, ids=lambda page: page.stem)
def test_tables_of_options_are_current(page):
    assert option_tables.regenerate(page) == page.read_text("utf-8"), "run tools/option_tables.py"
