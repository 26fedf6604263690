from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.parallel.files import FilePair, list_file_pairs, read_blocks


def list_pairs(prefixes):
    return list_file_pairs("trainpref", prefixes, ("de", "en"))


def test_prefix_stands_for_a_file_in_each_language(write_files):
    first, second = (
        write_files({"de": "a\n", "en": "b\n"}),
        write_files({"de": "c\n", "en": "d\n"}, "more"),
    )
    write_files({"de": "", "en": ""}, "more", ".gz")  # what is not packed goes first
    found = list_pairs(f"{first},{second}")
    assert found == [FilePair(Path(f"{it}.de"), Path(f"{it}.en")) for it in (first, second)]


def test_missing_language_is_reported_with_those_that_exist(write_files):
    prefix = write_files({"de": "a\n", "fr": "b\n"}, ending=".gz")
    with pytest.raises(ToolkitError, match=r"train\.en is not there, only de, fr\. Give the path"):
        list_pairs(prefix)
    with pytest.raises(ToolkitError, match=r"nowhere.de is not there, no such file in any"):
        list_pairs(prefix + "/nowhere")


def test_folder_in_place_of_a_prefix_is_rejected():
    with pytest.raises(ToolkitError, match=r"trainpref must name files in both languages, but"):
        list_pairs(".")


def test_empty_file_is_rejected(write_files):
    with pytest.raises(ToolkitError, match=r"train.en must hold text, but is empty\. Take it out"):
        list_pairs(write_files({"de": "a\n", "en": ""}))


def test_blocks_hold_corresponding_lines(write_files):
    prefix = write_files({"de": "a\r\nb\r\n\r\nd", "en": "A\nB\n\nD\n"}, ending=".gz")
    found = list(read_blocks(list_pairs(prefix)[0], 3, 100))
    assert [block.source for block in found] == [["a", "b", ""], ["d"]]
    assert [block.target for block in found] == [["A", "B", ""], ["D"]]
    assert [block.first for block in found] == [0, 3]
    sizes = sum(Path(f"{prefix}.{language}.gz").stat().st_size for language in ("de", "en"))
    assert sum(block.read_bytes for block in found) == sizes


def test_unequal_numbers_of_lines_are_rejected(write_files):
    [pair] = list_pairs(write_files({"de": "a\n" * 5, "en": "b\n" * 7}))
    with pytest.raises(ToolkitError, match=r"equally many lines, but have 5 and 7\. Line n of one"):
        list(read_blocks(pair, 3, 100))
