from pathlib import Path

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.tagging.treebanks import Sections


@pytest.mark.parametrize(
    ("value", "path", "selected"),
    [
        ("0-18", "wsj/00/wsj_0001.mrg", True),
        ("0-18", "wsj/19/wsj_1901.mrg", False),
        ("19,20-21", "wsj/21/wsj_2101.mrg", True),
        ("0-18", "combined/wsj_0199.mrg", True),
        ("02", "combined/wsj_0199.mrg", False),
        ("0001-0139", "combined/wsj_0139.mrg", True),
        ("0001-0139", "combined/wsj_0140.mrg", False),
        ("0140", "wsj/01/wsj_0140.mrg", True),
        ("0-18", "notes.mrg", False),
        ("0-18", "/data/5/ptb/combined/wsj_2301.mrg", False),
        ("22-24", "/data/5/ptb/combined/wsj_2301.mrg", True),
        ("0-18", "/data/5/combined/wsj_0101-0203.mrg", True),
        ("0-18", "wsj/05/b.mrg", True),
    ],
)
def test_sections_have_two_digits_and_files_four(value, path, selected):
    assert Sections("train_sections", value).contain(Path(path)) is selected


def test_reversed_sections_are_rejected():
    message = r"train_sections 18-02 must begin with the lower number. Write 02-18."
    with pytest.raises(ToolkitError, match=message):
        Sections("train_sections", "0-1,18-02")


def test_sections_must_be_numbers():
    with pytest.raises(ToolkitError, match=r"train_sections must be numbers .* but has 'a-b'"):
        Sections("train_sections", "0-1,a-b")


def test_sections_must_select_at_least_one_file():
    files = [Path(f"wsj/{name}") for name in ("00/wsj_0001.mrg", "01/wsj_0101.mrg")]
    assert Sections("train_sections", "0").select(files, "wsj") == files[:1]
    with pytest.raises(ToolkitError, match="train_sections 5 selects none of the 2 files of wsj"):
        Sections("train_sections", "5").select(files, "wsj")
