import numpy as np
import pytest

from toolkit.data.preprocessing.segmentation import plan_parts, read_items


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
    monkeypatch.setattr("toolkit.data.preprocessing.segmentation.PART_BYTES", 40 + seed)
    monkeypatch.setattr("toolkit.data.preprocessing.segmentation.CHUNK_BYTES", window)
    cut = plan_parts([path], units)
    assert (len(whole), len(cut) > 5) == (1, True)
    assert read(cut, units) == read(whole, units)


def test_file_without_blank_lines_is_cut_between_lines_but_not_inside_a_paragraph(
    text_file, monkeypatch
):
    monkeypatch.setattr("toolkit.data.preprocessing.segmentation.PART_BYTES", 50)
    path = text_file("some words\n" * 100)
    assert len(plan_parts([path], "lines")) > 10
    assert len(plan_parts([path], "paragraphs")) == 1


def test_small_files_share_a_part_and_archives_are_not_cut(text_file, monkeypatch):
    monkeypatch.setattr("toolkit.data.preprocessing.segmentation.PART_BYTES", 100)
    files = [text_file("x" * 40, f"{i}.txt") for i in range(6)] + [text_file("y" * 900, "z.gz")]
    parts = plan_parts(files, "lines")
    assert [len(part) for part in parts] == [3, 3, 1]


def test_the_number_of_parts_is_bounded(text_file, monkeypatch):
    monkeypatch.setattr("toolkit.data.preprocessing.segmentation.PART_BYTES", 1)
    monkeypatch.setattr("toolkit.data.preprocessing.segmentation.MAX_PARTS", 7)
    assert len(plan_parts([text_file("word\n" * 1000)], "lines")) == 7


def test_line_of_several_parts_is_not_cut(text_file):
    path = text_file(b"x" * (6 << 20) + b"\nlast")  # a search in quadratic time would take days
    assert [len(part) for part in plan_parts([path], "lines")] == [1, 1]
