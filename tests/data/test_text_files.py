import gzip
import lzma
import os
import re
import time

import numpy as np
import pytest

from toolkit.common.arrays import pack_rows, ragged_arange, split_rows
from toolkit.common.errors import ToolkitError
from toolkit.data.text_files import FileChunk, list_files, read_lines, read_strict_text

TEXT = "first line\n  second \n\nthird"


def lines(path, start=0, end=None, max_line_bytes=1000):
    piece = FileChunk(path, start, path.stat().st_size if end is None else end, True)
    return [line for chunk in read_lines(piece, max_line_bytes) for line in chunk.lines]


@pytest.fixture(params=[7, 1 << 20])
def chunk_bytes(request, monkeypatch):
    monkeypatch.setattr("toolkit.data.text_files.CHUNK_BYTES", request.param)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
@pytest.mark.parametrize("change", ["\n", "\r\n", "\ufeff"])
def test_compression_line_ends_and_bom_do_not_change_the_lines(
    text_file, chunk_bytes, pack, change
):
    text = change + TEXT if change == "\ufeff" else TEXT.replace("\n", change)
    ending = {gzip.compress: ".gz", lzma.compress: ".xz"}.get(pack, "")
    path = text_file(pack(text.encode()), "a.txt" + ending)
    assert lines(path) == ["first line", "second", "", "third"]


def test_unicode_line_separators_do_not_end_lines(text_file):
    assert lines(text_file("a\u2028b\x0cc\x85d\n")) == ["a\u2028b\x0cc\x85d"]


def read_error(path, **options):
    with pytest.raises(ToolkitError) as caught:
        lines(path, **options)
    return str(caught.value)


def test_line_numbers_count_from_the_start_of_the_file_in_later_chunks(text_file):
    path = text_file(b"one\ntwo\nthree\nf\xffur\n")
    assert read_error(path, start=8).startswith(f"{path}:4: expected UTF-8")


def test_very_long_line_takes_linear_time(text_file, monkeypatch):
    monkeypatch.setattr("toolkit.data.text_files.CHUNK_BYTES", 64)
    path = text_file(b"x" * (4 << 20))
    start = time.monotonic()
    assert len(lines(path, max_line_bytes=1 << 23)[0]) == 4 << 20
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_truncated_archive_is_an_error(text_file, pack):
    packed = pack(TEXT.encode() * 1000)
    ending = ".gz" if pack is gzip.compress else ".xz"
    path = text_file(packed[: len(packed) // 2], "a.txt" + ending)
    assert read_error(path).startswith(f"{path}:1: cannot read further")


def test_a_folder_stands_for_the_texts_in_it_in_order(text_file, tmp_path):
    for name in ("b.txt", "a.txt.gz", "c.md"):
        text_file("x", name)
    assert [path.name for path in list_files("trainpref", str(tmp_path))] == ["a.txt.gz", "b.txt"]


def test_folder_stands_for_its_files_without_pipes_and_links_to_nothing(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / ".#a.txt").symlink_to("user@host.1234")  # an editor's lock
    os.mkfifo(tmp_path / "pipe.txt")
    assert list_files("trainpref", str(tmp_path)) == [tmp_path / "a.txt"]


def test_missing_and_empty_files_and_folders_are_named(text_file, tmp_path):
    with pytest.raises(ToolkitError, match=r"No such file: \S*nowhere \(testpref\)"):
        list_files("testpref", str(tmp_path / "nowhere"))
    empty = text_file("", "empty.txt")
    with pytest.raises(ToolkitError, match=re.escape(f"{empty} must hold text, but is empty")):
        list_files("trainpref", str(empty))
    empty.rename(tmp_path / "empty.md")
    with pytest.raises(ToolkitError, match=r"must hold files ending in .txt, but"):
        list_files("trainpref", str(tmp_path))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", r"a.conllu:1: the file is empty"),
        (b"\n \n", r"a.conllu:1: the file is empty"),
        (b"\xef\xbb\xbf\r\n", r"a.conllu:1: the file is empty"),
        (b"a\r\nb\rc\r\n", r"a.conllu:2: found a carriage return inside a line"),
        (
            "a\nb\u00e9\n".encode("latin1"),
            r"a.conllu:2: expected UTF-8, found byte 0xe9 at column 2.*latin1",
        ),
        ("a".encode("utf-16"), r"a.conllu:1: .*iconv -f utf-16"),
        (b"a\nb\0\n", r"a.conllu:2: found a NUL byte"),
    ],
)
def test_strict_text_names_file_and_line_of_a_fault(tmp_path, data, complaint):
    path = tmp_path / "a.conllu"
    path.write_bytes(data)
    with pytest.raises(ToolkitError, match=complaint):
        read_strict_text(path)


def test_strict_text_has_neither_byte_order_mark_nor_carriage_returns(tmp_path):
    path, data = tmp_path / "a.conllu", b"\xef\xbb\xbf1\ta\r\n\r\n"
    path.write_bytes(data)
    assert read_strict_text(path) == (data, "1\ta\n\n")


@pytest.mark.parametrize("starts", [np.array([7, 0, 9, 3]), 0])
def test_ragged_arange_equals_python_ranges(starts):
    counts = np.array([2, 0, 3, 1])
    firsts = np.broadcast_to(starts, 4).tolist()
    pairs = zip(firsts, counts.tolist(), strict=True)
    expected = [number for first, count in pairs for number in range(first, first + count)]
    assert ragged_arange(starts, counts).tolist() == expected


def test_packed_rows_are_split_again():
    rows = [[1, 2], [], [3]]
    values, lengths = pack_rows(rows)
    assert (values.tolist(), lengths.tolist()) == ([1, 2, 3], [2, 0, 1])
    assert [row.tolist() for row in split_rows(values, lengths)] == rows
    assert split_rows(*pack_rows([])) == []
