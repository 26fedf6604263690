import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.tagging.treebanks import read_penn_treebank

TREES = r"""

( (S
    (NP-SBJ (-NONE- *-1) )
    (VP (VBZ costs)
      (NP (CD 1\/2) (NN|JJ stock) (-LRB- -LRB-) (NNP R\*D) (-RRB- -RRB-) )
      (. .) )))
( (NP (NNP Yes)
    (. !) ))
"""
SLASHED = r"""

[ The/DT cost/NN ]
is/VBZ 1\/2/CD ./. ''/''
======================================

[ OK/UH ]
./.
Done/VBN|JJ
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


def test_pos_files_are_split_after_full_stops_and_at_rules(read):
    sentences_read = read(SLASHED, "wsj_0001.pos")
    assert [s.words for s in sentences_read] == [
        ["The", "cost", "is", "1/2", ".", "''"], ["OK", "."], ["Done"]
    ]  # fmt: skip
    assert sentences_read[2].tags == ["VBN"]


@pytest.mark.parametrize(("text", "name"), [(TREES, "a.mrg"), (SLASHED, "a.pos")])
def test_sentences_concatenate_to_the_file_and_spans_hold_the_tags(read, text, name):
    sentences_read = read(text, name)
    assert b"".join(s.source for s in sentences_read).decode() == text
    for s in sentences_read:
        fields = [s.source[begin:end].decode().split("|")[0] for begin, end in s.tag_spans]
        assert fields == s.tags


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (TREES.replace("(. .) )))", "(. .) ))"), "a.mrg", r"a.mrg:3: .* balanced, but 1 of this"),
        (TREES.replace("!) ))", "!) )"), "a.mrg", r"a.mrg:8: .* balanced, but 1 of this tree"),
        (TREES.replace("!) ))", "!) )))"), "a.mrg", r"a.mrg:9: a tree must begin with \(, but"),
        (SLASHED.replace("NN ]", "NN"), "a.pos", r"a.pos:7: brackets .* here is \[ too many"),
        (SLASHED.replace("[ OK", "OK"), "a.pos", r"a.pos:7: brackets .* here is \] too many"),
        (SLASHED + "[ a/DT\n", "a.pos", r"a.pos:10: brackets .* this \[ is not closed"),
        (SLASHED.replace("is/VBZ", "is"), "a.pos", r"a.pos:4: expected word/TAG, found 'is'"),
    ],
)
def test_faults_are_named_by_file_and_line(read, text, name, message):
    with pytest.raises(ToolkitError, match=message):
        read(text, name)
