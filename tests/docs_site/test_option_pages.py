"""Generated pages of commands and options."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.docs_site.catalog import CatalogEntry, list_entries
from tools.docs_site.option_entries import entry_section
from tools.docs_site.option_links import link_options

REPOSITORY = Path(__file__).resolve().parents[2]


def find(key: str) -> CatalogEntry:
    return next(entry for entry in list_entries() if entry.key == key)


def test_entry_has_flag_help_key_value_default_and_other_names():
    text = entry_section(find("training.patience"))
    heading, _, help_text, _, *facts = text.strip().splitlines()
    assert heading == "### `--patience`: early stopping { #training-patience }"
    assert help_text.startswith("Early stopping: stop after")
    assert facts[:3] == [
        "- Configuration key: `training.patience`",
        "- Value: integer, at least 0",
        "- Default: `0`",
    ]
    assert "Hugging Face `early_stopping_patience`" in facts[3]


MISSING_ENTRIES = """
from tools.docs_site.catalog import list_entries
from tools.docs_site.option_entries import entry_section
from tools.docs_site.option_pages import option_pages

pages = "\\n".join(option_pages().values())
entries = [entry for entry in list_entries() if entry.section != "toolkit"]
assert len(entries) > 300
print([entry.key for entry in entries if pages.count(entry_section(entry)) != 1])
"""


@pytest.mark.slow
def test_pages_have_each_entry_once():
    """In a separate process, because other tests register architectures."""
    ran = subprocess.run(
        [sys.executable, "-c", MISSING_ENTRIES], capture_output=True, text=True, cwd=REPOSITORY
    )
    assert ran.stdout == "[]\n", ran.stderr


def test_tables_of_other_toolkits_link_to_the_entries():
    rows = "| `--cpu` | `--device cpu` | |\n| `--beam` | `--beam` of `toolkit-generate` | |\n"
    text = link_options(f"<!-- table: fairseq -->\n{rows}<!-- end -->\n")
    assert "[`--device cpu`](../reference/options/train.md#training-device) |" in text
    assert "[`--beam`](../reference/options/generate.md#generate-beam) of `toolkit-" in text
    assert link_options(rows) == rows, "not in a table of options"
