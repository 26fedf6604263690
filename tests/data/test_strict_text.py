import gzip
import lzma

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.text_files import read_strict_text


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


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_strict_text_reads_compressed_files(tmp_path, ending, pack):
    path = tmp_path / f"a.conllu{ending}"
    path.write_bytes(pack("é\n".encode()))
    assert read_strict_text(path) == ("é\n".encode(), "é\n")


def test_strict_text_rejects_truncated_archives(tmp_path):
    path = tmp_path / "a.conllu.xz"
    path.write_bytes(lzma.compress(b"abc" * 1000)[:40])
    with pytest.raises(ToolkitError, match=r"a.conllu.xz is truncated or damaged"):
        read_strict_text(path)


def test_strict_text_names_a_missing_file(tmp_path):
    with pytest.raises(ToolkitError, match=r"No such file: .*a.conllu"):
        read_strict_text(tmp_path / "a.conllu")


def test_strict_text_has_neither_byte_order_mark_nor_carriage_returns(tmp_path):
    path, data = tmp_path / "a.conllu", b"\xef\xbb\xbf1\ta\r\n\r\n"
    path.write_bytes(data)
    assert read_strict_text(path) == (data, "1\ta\n\n")
