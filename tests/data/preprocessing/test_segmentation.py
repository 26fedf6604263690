import pytest

from toolkit.data.preprocessing.segmentation import read_items, split_sentences
from toolkit.data.text_files import FileChunk

TEXT = "one.\ntwo.\n\n\nthree. Four\nfive? six\n"


def units(path, kind, fresh=True):
    found = list(read_items(FileChunk(path, 0, path.stat().st_size, fresh), kind, 1000))
    items = [item for batch in found for item in batch.items]
    return items, [document for batch in found for document in batch.documents]


@pytest.fixture(params=[5, 1 << 20])
def path(request, text_file, monkeypatch):
    monkeypatch.setattr("toolkit.data.text_files.CHUNK_BYTES", request.param)
    return text_file(TEXT)


def test_lines_are_items_and_blank_lines_end_documents(path):
    items, documents = units(path, "lines")
    assert items == ["one.", "two.", "three. Four", "five? six"]
    assert documents == [1, 1, 2, 2]


def test_paragraphs_join_lines_and_a_file_is_one_document(path):
    assert units(path, "paragraphs") == (["one. two.", "three. Four five? six"], [1, 1])


@pytest.mark.parametrize(
    ("kind", "lines"), [("lines", [0, 1, 4, 5]), ("paragraphs", [0, 4]), ("sentences", [0, 4, 4])]
)
def test_items_have_the_first_line_of_their_paragraph(path, kind, lines):
    found = read_items(FileChunk(path, 0, path.stat().st_size, True), kind, 1000)
    assert [line for batch in found for line in batch.lines] == lines


def test_sentences_are_split_within_paragraphs(path):
    assert units(path, "sentences") == (["one. two.", "three.", "Four five? six"], [1, 1, 1])


def test_chunk_inside_a_document_continues_document_0(path):
    assert units(path, "lines", fresh=False)[1] == [0, 0, 1, 1]
    assert units(path, "paragraphs", fresh=False)[1] == [0, 0]


@pytest.mark.parametrize("text", ["\n\na\n", "a\n\n\n\n", "\n \t\na"])
def test_blank_lines_at_the_ends_start_no_documents(text_file, text):
    assert units(text_file(text), "lines") == (["a"], [1])


@pytest.mark.parametrize(
    "text, count",
    [
        ("He went. She stayed.", 2),
        ('"Why?" he said. "I do."', 2),
        ("Mr. Smith met Dr. J. R. Jones in St. Ives.", 1),
        ("It cost 3.50 pounds, i.e. nothing.", 1),
        ("Wait... what? No! (Yes.) \u201cSo.\u201d Done", 5),
        ("\u4f60\u597d\u3002\u518d\u89c1\uff01", 2),
        ("no end", 1),
        (
            "Chats, etc. \u00e0 Paris. \u00c0 Rome. \u00ab\u00e9tait-ce?\u00bb \u00abEt?\u00bb",
            3,
        ),
        ("\u10d0\u10d1\u10d2. \u10d0\u10d1.", 2),
        ("\u042d\u0442\u043e \u0442. \u0435. \u0434\u043e\u043c. \u041e\u043d.", 2),
    ],
)
def test_sentences_end_before_an_apparent_start_of_another(text, count):
    found = split_sentences(text)
    assert len(found) == count
    assert "".join(found).replace(" ", "") == text.replace(" ", "")
