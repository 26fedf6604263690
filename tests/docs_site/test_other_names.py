from functools import cache

import pytest

from toolkit.common.registry import counterparts, read_other_names
from toolkit.config.names import RESERVED_NAMES
from tools import option_tables
from tools.docs_site.catalog import find_key, list_entries
from tools.docs_site.other_names import TOOLS, names_of_option, other_names, terms


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


def test_names_that_the_command_line_answers_are_joined_with_those_of_the_file():
    names = {other.name: other for other in other_names("huggingface")}
    assert names["gradient_accumulation_steps"].keys == ("training.update_freq",)
    assert names["seed"].keys == ("training.seed",)
    assert (names["tf32"].keys, names["tf32"].value) == (("training.precision",), "tf32")
    assert names["push_to_hub"].keys == () and "toolkit-convert" in names["push_to_hub"].remark


@pytest.mark.parametrize("tool", ["fairseq", "huggingface"])
def test_names_of_the_file_are_those_of_options_or_answered_on_the_command_line(tool):
    ours = {key.rpartition(".")[2] for key in keys()} | RESERVED_NAMES.keys()
    assert read_other_names()[tool].keys() <= ours | counterparts().keys()


def test_names_of_an_option_are_grouped_by_toolkit():
    assert terms("training.update_freq")[0] == "gradient accumulation"
    names = names_of_option("training.update_freq")
    assert names["fairseq"] == ["--update-freq"]
    assert names["Hugging Face"] == ["gradient_accumulation_steps"]
    assert names["JoeyNMT"] == ["batch_multiplier"]


def test_short_names_prefer_the_options_of_a_run():
    assert find_key("lr") == "optimizer.lr"
    assert find_key("batch_size") == "data.batch_size"
    assert find_key("beam") == "generate.beam"
    assert find_key("lr_scheduler") == "lr_scheduler.name"


def test_table_of_a_toolkit_names_the_option_to_write():
    rows = option_tables.option_table("fairseq", [])
    assert ["`--cpu`", "`--device cpu`", ""] in rows
    assert ["`--beam`", "`--beam` of `toolkit-generate`", ""] in rows
    assert ["`--min-lr`", "`--training.stop-min-lr`"] in [row[:2] for row in rows]


def test_table_of_a_section_has_its_options_only():
    rows = option_tables.option_table("fairseq", ["training"])
    assert ["`--cpu`", "`--device cpu`", ""] in rows
    assert not [row for row in rows if row[0] in ("`--beam`", "`--sacrebleu`")]
    unanswered = [row for row in option_tables.option_table("fairseq", ["none"])[1:]]
    assert unanswered and all(not row[1] and row[2] for row in unanswered)


@pytest.mark.parametrize("page", option_tables.PAGES, ids=lambda page: page.stem)
def test_tables_of_options_are_current(page):
    assert option_tables.regenerate(page) == page.read_text("utf-8"), "run tools/option_tables.py"
