import gzip
import lzma

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.text_files import read_strict_text


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", r"a.conllu:1: the file must hold sentences, but is empty"),
        (b"\n \n", r"a.conllu:1: the file must hold sentences, but is empty"),
        (b"\xef\xbb\xbf1\ta\n", r"a.conllu:1: .*begins with a byte order mark"),
        (b"a\nb\r\n", r"a.conllu:2: lines must end in LF alone"),
        (
            "a\nb\u00e9\n".encode("latin1"),
            r"a.conllu:2: .*UTF-8, but has byte 0xe9 at column 2.*latin1",
        ),
        ("a".encode("utf-16"), r"a.conllu:1: .*iconv -f utf-16"),
        (b"a\nb\0\n", r"a.conllu:2: the file must be text, but has a NUL byte"),
    ],
)
def test_a_file_that_is_no_plain_text_is_refused_by_file_and_line(tmp_path, data, complaint):
    path = tmp_path / "a.conllu"
    path.write_bytes(data)
    with pytest.raises(ToolkitError, match=complaint):
        read_strict_text(path)


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_packed_files_are_read(tmp_path, ending, pack):
    path = tmp_path / f"a.conllu{ending}"
    path.write_bytes(pack("é\n".encode()))
    assert read_strict_text(path) == ("é\n".encode(), "é\n")


def test_a_packed_file_that_is_cut_off_is_told(tmp_path):
    path = tmp_path / "a.conllu.xz"
    path.write_bytes(lzma.compress(b"abc" * 1000)[:40])
    with pytest.raises(ToolkitError, match=r"a.conllu.xz must be readable, but is not"):
        read_strict_text(path)


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ToolkitError, match=r"must be readable, but is not: .*No such file"):
        read_strict_text(tmp_path / "a.conllu")
