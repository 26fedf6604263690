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
        (TREES.replace("(. .) )))", "(. .) ))"), "a.mrg", r"a.mrg:3: .* balanced, but 1 are open"),
        (TREES.replace("!) ))", "!) )"), "a.mrg", r"a.mrg:8: .* balanced, but 1 are open"),
        (TREES.replace("!) ))", "!) )))"), "a.mrg", r"a.mrg:9: a tree must begin with \(, but"),
    ],
)
def test_faults_are_named_by_file_and_line(read, text, name, message):
    with pytest.raises(ToolkitError, match=message):
        read(text, name)
