from pathlib import Path

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.tagging.treebanks import Sections, read_penn_treebank

TREES = r"""

( (S
    (NP-SBJ (-NONE- *-1) )
    (VP (VBZ costs)
      (NP (CD 1\/2) (NN|JJ stock) (-LRB- -LRB-) (NNP R\*D) (-RRB- -RRB-) )
      (. .) )))
( (NP (NNP Yes)
    (. !) ))
"""


@pytest.fixture
def read(tmp_path):
    def sentences(text, name):
        path = tmp_path / name
        path.write_text(text)
        return list(read_penn_treebank(path))

    return sentences


def test_leaves_of_trees_are_words_without_traces_and_escapes(read):
    first, second = read(TREES, "wsj_0001.mrg")
    assert first.words == ["costs", "1/2", "stock", "(", "R*D", ")", "."]
    assert first.tags == ["VBZ", "CD", "NN", "-LRB-", "NNP", "-RRB-", "."]
    assert (second.words, second.lines) == (["Yes", "!"], [8, 9])


def test_sentences_concatenate_to_the_file_and_spans_hold_the_tags(read):
    sentences_read = read(TREES, "a.mrg")
    assert b"".join(s.source for s in sentences_read).decode() == TREES
    for s in sentences_read:
        fields = [s.source[begin:end].decode().split("|")[0] for begin, end in s.tag_spans]
        assert fields == s.tags


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (TREES.replace("(. .) )))", "(. .) ))"), "a.mrg", r"a.mrg:3: .* balanced, but 1 of this"),
        (TREES.replace("!) ))", "!) )"), "a.mrg", r"a.mrg:8: .* balanced, but 1 of this tree"),
        (TREES.replace("!) ))", "!) )))"), "a.mrg", r"a.mrg:9: a tree must begin with \(, but"),
    ],
)
def test_faults_are_named_by_file_and_line(read, text, name, message):
    with pytest.raises(ToolkitError, match=message):
        read(text, name)


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


def test_sections_must_select_at_least_one_file():
    files = [Path(f"wsj/{name}") for name in ("00/wsj_0001.mrg", "01/wsj_0101.mrg")]
    assert Sections("train_sections", "0").select(files, "wsj") == files[:1]
    with pytest.raises(ToolkitError, match="train_sections 5 selects none of the 2 files of wsj"):
        Sections("train_sections", "5").select(files, "wsj")
