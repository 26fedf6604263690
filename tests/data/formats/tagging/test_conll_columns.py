import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.tagging.conll_columns import read_conll_columns


@pytest.fixture
def read(tmp_path):
    def sentences(text):
        path = tmp_path / "a.txt"
        path.write_text(text)
        return list(read_conll_columns(path))

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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tX\nb Y\n", r"a.txt:2: a line must have a word and its tag with tabs between"),
        ("a\n", r"a.txt:1: a line must have a word and its tag with single spaces"),
        ("a\tX\nb\tY\tZ\n", r"a.txt:2: a line must have 2 columns separated by tabs, .* has 3"),
        ("a X\nb  Y\n", r"a.txt:2: a line must have 2 columns separated by single spaces"),
        ("a\tX\n\tY\n", r"a.txt:2: word and tag must not be empty"),
        ("a\tX\n\nb\t_\n", r"a.txt:3: a word must have a tag, but 'b' has _"),
    ],
)
def test_faults_are_named_by_file_and_line(read, text, message):
    with pytest.raises(ToolkitError, match=message):
        read(text)
