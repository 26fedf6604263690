import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.tagging.treebanks import read_conll_columns


@pytest.fixture
def read(tmp_path):
    def sentences(text, **options):
        path = tmp_path / "a.txt"
        path.write_text(text)
        return list(read_conll_columns(path, **options))

    return sentences


@pytest.mark.parametrize(
    "text",
    ["\na\tX\nNew York\tY\n\n\nb\tZ", "a X\nNew_York Y\n\nb Z\n", "a X O\nb Y B\n\nb Z O\n\n"],
)
def test_conll_columns_are_word_and_tag(read, text):
    first, second = read(text)
    assert (first.tags, second.words, second.tags) == (["X", "Y"], ["b"], ["Z"])
    assert b"".join(s.source for s in (first, second)).decode() == text
    assert [first.source[b:e] for b, e in first.tag_spans] == [b"X", b"Y"]


@pytest.mark.parametrize("column", [2, 3, 4])
def test_tag_column_selects_the_tags(read, column):
    [sentence] = read("EU NNP B-NP B-ORG\n. . O O\n", tag_column=column)
    assert sentence.words == ["EU", "."]
    assert sentence.tags == {2: ["NNP", "."], 3: ["B-NP", "O"], 4: ["B-ORG", "O"]}[column]
    assert [sentence.source[b:e].decode() for b, e in sentence.tag_spans] == sentence.tags


UNER = "# sent_id = 1\n# text = EU #\n1\tEU\tB-ORG\t-\n# a\n2\t#\tO\t-\n\n#\thttp://x\n1\tb\tO\t-\n"


def test_comments_are_no_words_and_words_may_follow_their_number(read):
    """As in Universal NER and GermEval 2014."""
    first, second = read(UNER, word_column=2, tag_column=3)
    assert (first.words, first.tags, second.words) == (["EU", "#"], ["B-ORG", "O"], ["b"])
    assert b"".join(s.source for s in (first, second)).decode() == UNER
    assert [first.source[b:e] for b, e in first.tag_spans] == [b"B-ORG", b"O"]
    assert (first.lines, second.lines) == ([3, 5], [8])
    assert [s.words for s in read("# #\n5 CD\n\n# #\n")] == [["#", "5"], ["#"]]


def test_document_starts_are_no_words(read):
    text = (
        "-DOCSTART- -X- O O\n\na X O O\n\n-DOCSTART- O\nb Y O O\nc Y O O\n-DOCSTART- O\n\nd Z O O\n"
    )
    sentences = read(text)
    assert [s.words for s in sentences] == [["a"], ["b", "c"], ["d"]]
    assert [s.lines for s in sentences] == [[3], [6, 7], [10]]
    assert b"".join(s.source for s in sentences).decode() == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tX\nb Y\n", r"a.txt:2: a line must have 2 columns separated by tabs, .* has 1"),
        ("a\n", r"a.txt:1: a line must have 2 columns separated by single spaces, .* has 1"),
        ("a\tX\nb\tY\tZ\n", r"a.txt:2: a line must have 2 columns separated by tabs, .* has 3"),
        ("a X\nb  Y\n", r"a.txt:2: a line must have 2 columns separated by single spaces"),
        ("a\tX\n\tY\n", r"a.txt:2: word and tag must not be empty"),
        ("a\tX\n# Y\n#\tZ\n", r"a.txt:2: a line must have 2 columns separated by tabs, .* has 1"),
        ("a\tX\n\nb\t_\n", r"a.txt:3: a word must have a tag, but 'b' has _"),
    ],
)
def test_faults_are_named_by_file_and_line(read, text, message):
    with pytest.raises(ToolkitError, match=message):
        read(text)
