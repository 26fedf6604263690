"""Generated pages of commands and options."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.config.declared import AtLeast, Option, OptionType
from tools.docs_site.catalog import CatalogEntry, list_entries
from tools.docs_site.command_pages import command_section
from tools.docs_site.component_pages import defaults_table
from tools.docs_site.option_entries import describe_type, entry_section, mark_up
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


def test_entry_of_components_names_them_and_their_defaults():
    text = entry_section(find("arch.layers"))
    assert "- Of: `bert`, `composite_bert`" in text and "taco" not in text
    assert "- Defaults: `12`, `2`, `22`, `4`, `6`, in the tables above" in text
    variants = [e for e in list_entries() if e.key == "arch.layers"]
    assert ["{ #arch-layers-taco }" in entry_section(e) for e in variants].count(True) == 1


def test_value_is_described_by_type_range_and_form():
    def described(kind: OptionType, **form: object) -> str:
        return describe_type(Option("x", kind, None, "", **form))

    assert described(OptionType(bool)) == "true or false"
    assert described(OptionType(str, choices=("a", "b"))) == "one of `a`, `b`"
    assert described(OptionType(int, optional=True)) == "integer (or `none`)"
    assert described(OptionType(str, optional=True)) == "text"
    numbers = OptionType(float, is_list=True, bounds=(AtLeast(0),))
    assert described(numbers) == "list of numbers, each at least 0, separated by commas"
    assert described(OptionType(str, is_list=True), separator=None).endswith("one for each flag")


def test_help_becomes_markdown_with_flags_as_code():
    assert mark_up("Set --task.mask-rate, not [MASK].") == r"Set `--task.mask-rate`, not \[MASK\]."
    assert mark_up("length ** lenpen") == r"length \*\* lenpen"


def test_table_of_an_architecture_has_a_column_for_each_size():
    head, _, *rows = defaults_table("arch", ["bert", "bert_small", "bert_tiny"]).splitlines()
    assert head == "| option | `bert` | `_small` | `_tiny` |"
    assert "| [`--arch.layers`](#arch-layers) | `12` | `12` | `2` |" in rows


def test_component_without_options_has_no_table():
    assert defaults_table("task", ["encode"]) == ""


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


def test_command_with_modes_has_a_section_for_each():
    text = command_section("generate")
    assert "### toolkit-generate fill-mask\n\nPredict the masked tokens.\n" in text
    assert "```sh\ntoolkit-generate fill-mask [options]\n```" in text
    assert "All options: [toolkit-generate](options/generate.md)." in text


def test_command_has_its_common_options_and_an_example():
    text = command_section("train")
    assert "| `--lr X` | Peak learning rate. |" in text
    assert "Example:\n\n```sh\ntoolkit-train data --arch" in text


def test_tables_of_other_toolkits_link_to_the_entries():
    rows = "| `--cpu` | `--device cpu` | |\n| `--beam` | `--beam` of `toolkit-generate` | |\n"
    text = link_options(f"<!-- table: fairseq -->\n{rows}<!-- end -->\n")
    assert "[`--device cpu`](../reference/options/train.md#training-device) |" in text
    assert "[`--beam`](../reference/options/generate.md#generate-beam) of `toolkit-" in text
    assert link_options(rows) == rows, "not in a table of options"
