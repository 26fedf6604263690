from pathlib import Path

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess_formats import TaggingOptions
from toolkit.data.formats.tagging.files import Sections, list_tagged_files


@pytest.mark.parametrize(
    ("given", "path", "held"),
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
def test_two_digits_are_a_section_and_four_a_file(given, path, held):
    assert Sections("train_sections", given).contain(Path(path)) is held


def test_sections_that_are_no_numbers_are_refused():
    with pytest.raises(ToolkitError, match=r"train_sections must be numbers .* but has 'a-b'"):
        Sections("train_sections", "0-1,a-b")


@pytest.fixture
def wsj(tmp_path):
    for name in ("00/wsj_0001.mrg", "00/wsj_0002.mrg", "01/wsj_0101.mrg", "01/README"):
        path = tmp_path / "wsj" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("( (S (NN a) ))\n")
    return tmp_path / "wsj"


def test_a_folder_stands_for_the_files_of_the_format_below_it(wsj):
    config = TaggingOptions(format="ptb", trainpref=str(wsj), train_sections="0")
    assert [path.name for path in list_tagged_files("train", config)] == [
        "wsj_0001.mrg",
        "wsj_0002.mrg",
    ]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"train_sections": "5"}, "must choose files of .* but 5 chooses none of 3"),
        ({"format": "conllu"}, r"trainpref folder .* must hold files ending in .conllu, but"),
        ({"trainpref": "nowhere"}, "trainpref must name existing files, but nowhere is not there"),
    ],
)
def test_files_that_are_not_there_are_told(wsj, options, complaint):
    config = TaggingOptions(**{"format": "ptb", "trainpref": str(wsj), **options})
    with pytest.raises(ToolkitError, match=complaint):
        list_tagged_files("train", config)
