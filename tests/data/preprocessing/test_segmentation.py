import json

import numpy as np
import pytest

from toolkit.data.preprocessing.input_files import plan_parts, read_items, split_sentences
from toolkit.data.text_files import FileChunk, whole_file

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


def random_text(seed):
    """Short lines, many of them blank or of white space alone."""
    draw = np.random.default_rng(seed)
    lines = [draw.choice(["", "", " \t", "\r", "ab", "x y. Z", "long " * 5]) for _ in range(300)]
    return "\n".join(lines) + draw.choice(["", "\n"])


def read(parts, units):
    """Items, and the number of the document of each, as binarization numbers them."""
    items, documents, last = [], [], 0
    for piece in (piece for part in parts for piece in part):
        before = last
        for batch in read_items(piece, units, 10**6):
            items += batch.items
            documents += [before + document for document in batch.documents]
            last = max([last, *documents[-1:]])
    return items, np.unique(documents, return_inverse=True)[1].tolist()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("units", ["lines", "paragraphs", "sentences"])
@pytest.mark.parametrize("window", [80, 1 << 20])
def test_cutting_a_file_keeps_items_and_documents(text_file, monkeypatch, seed, units, window):
    path = text_file(random_text(seed))
    whole = plan_parts([path], units)
    monkeypatch.setattr("toolkit.data.preprocessing.input_files.PART_BYTES", 40 + seed)
    monkeypatch.setattr("toolkit.data.preprocessing.input_files.CHUNK_BYTES", window)
    cut = plan_parts([path], units)
    assert (len(whole), len(cut) > 5) == (1, True)
    assert read(cut, units) == read(whole, units)


def test_file_without_blank_lines_is_cut_between_lines_but_not_inside_a_paragraph(
    text_file, monkeypatch
):
    monkeypatch.setattr("toolkit.data.preprocessing.input_files.PART_BYTES", 50)
    path = text_file("some words\n" * 100)
    assert len(plan_parts([path], "lines")) > 10
    assert len(plan_parts([path], "paragraphs")) == 1


def test_small_files_share_a_part_and_archives_are_not_cut(text_file, monkeypatch):
    monkeypatch.setattr("toolkit.data.preprocessing.input_files.PART_BYTES", 100)
    files = [text_file("x" * 40, f"{i}.txt") for i in range(6)] + [text_file("y" * 900, "z.gz")]
    parts = plan_parts(files, "lines")
    assert [len(part) for part in parts] == [3, 3, 1]


def test_line_of_several_parts_is_not_cut(text_file):
    path = text_file(b"x" * (6 << 20) + b"\nlast")  # a search in quadratic time would take days
    assert [len(part) for part in plan_parts([path], "lines")] == [1, 1]


@pytest.mark.parametrize("sentence", ["He met Mr. Smith at {}. ", "\u4ed6\u5728{}\u3002"])
def test_a_long_line_has_the_sentences_of_the_line_cut_by_hand(tmp_path, sentence):
    text = "".join(sentence.format(number) for number in range(90_000))
    (tmp_path / "a.txt").write_text(f"{text}\nAnd one more.\n\nThe end.\n", "utf-8")
    batches = list(read_items(whole_file(tmp_path / "a.txt"), "sentences", 20_000))
    items = [item for batch in batches for item in batch.items]
    expected = [sentence.format(number).strip() for number in range(90_000)]
    assert items == [*expected, "And one more.", "The end."]
    assert [number for batch in batches for number in batch.lines] == [0] * 90_001 + [3]
    assert max(len(batch.items) for batch in batches) < 80_000
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": text}))
    rows = whole_file(tmp_path / "a.jsonl", 8 << 20)._replace(field="text")
    batches = read_items(rows, "sentences", 20_000)
    assert [item for batch in batches for item in batch.items] == expected
