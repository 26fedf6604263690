import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.tagging.treebanks import ConlluOptions, read_conllu

UPOS = ConlluOptions("upos")
TEXT = (
    "# sent_id = 1\n"
    "1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tvamos\tir\tVERB\tV\tNumber=Plur|Person=1\t0\troot\t_\t_\n"
    "2\tnos\tnosotros\tPRON\tP\tNumber=Plur\t1\tobj\t_\t_\n"
    "2.1\tya\tya\tADV\tA\t_\t_\t_\t1:advmod\t_\n"
    "3\ta b\ta b\tX\tF\t_\t1\tdep\t_\tGloss=x  y\n"
    "\n"
)


@pytest.fixture
def read(tmp_path):
    def sentences(text, options=UPOS):
        path = tmp_path / "a.conllu"
        path.write_text(text, encoding="utf-8", newline="")
        return list(read_conllu(path, options))

    return sentences


def test_syntactic_words_are_read_without_ranges_and_empty_nodes(read):
    [sentence] = read(TEXT)
    assert sentence.words == ["vamos", "nos", "a b"]
    assert sentence.tags == ["VERB", "PRON", "X"]
    assert sentence.lines == [3, 4, 6]


def test_empty_nodes_are_words_if_requested(read):
    [sentence] = read(TEXT, ConlluOptions("upos", empty_nodes=True))
    assert sentence.words == ["vamos", "nos", "ya", "a b"]


@pytest.mark.parametrize(("tag", "tags"), [("xpos", ["V", "P", "F"]), ("Person", ["1", "_", "_"])])
def test_xpos_and_features_may_be_the_tag(read, tag, tags):
    assert read(TEXT, ConlluOptions(tag))[0].tags == tags


def test_sentences_concatenate_to_the_file(read):
    text = "\n" + TEXT + "\n\n" + TEXT + "\n"
    assert b"".join(sentence.source for sentence in read(text)).decode() == text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\tPRON\t", "\t", r"a.conllu:4: a word must have 10 columns .* but there are 9"),
        ("\tPRON\t", "\tPRON\t\t", r"a.conllu:4: .* 10 columns .* but there are 11"),
        ("1\tvamos\tir\tVERB\tV\tNumber=Plur|Person=1\t0\troot\t_\t_", "1 a b c d e f g h i",
         r"a.conllu:3: .* these are separated by spaces"),
        ("\tVERB\t", "\t_\t", r"a.conllu:3: a word must have its UPOS tag, but 'vamos' has _"),
        ("\tnos\t", "\t\t", r"a.conllu:4: a word must not be empty. Fill in FORM"),
        ("2\tnos\t", "1\tnos\t", r"a.conllu:4: .* must be 2, but is 1. A blank line is missing"),
        ("2\tnos\t", "5\tnos\t", r"a.conllu:4: .* must be 2, but is 5. A line is missing"),
        ("2\tnos\t", "two\tnos\t", r"a.conllu:4: a word is not CoNLL-U: .*two"),
        ("2\tnos\t", f"{'2' * 5000}\tnos\t", r"a.conllu:4: .* is not CoNLL-U: a number of"),
        ("x  y\n\n", "x  y\n", r"a.conllu:6: a blank line must follow the last sentence"),
        ("x  y\n\n", "x  y", r"a.conllu:6: a blank line must follow the last sentence"),
        ("# sent_id = 1\n", "# sent_id = 1\n\n", r"a.conllu:1: a sentence must have words"),
    ],
)  # fmt: skip
def test_faults_are_named_by_file_and_line(read, old, new, message):
    assert old in TEXT
    with pytest.raises(ToolkitError, match=message):
        read(TEXT.replace(old, new, 1))


def test_untagged_text_is_read_if_requested(read):
    [sentence] = read(TEXT.replace("VERB", "_"), ConlluOptions("upos", untagged=True))
    assert sentence.tags == ["_", "PRON", "X"]
