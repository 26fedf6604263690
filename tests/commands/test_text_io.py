import gzip
import lzma

import pytest

from toolkit.commands.text_io import open_input
from toolkit.common.errors import ToolkitError

TEXT = b"one\r\n\ntwo \xff\n" * 1000


@pytest.mark.parametrize(("name", "pack"), [("a.gz", gzip.compress), ("a.txt.xz", lzma.compress)])
def test_open_input_decompresses_to_bytes(tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack(TEXT))
    with open_input(str(tmp_path / name), "") as lines:
        assert not lines.isatty()
        assert b"".join(lines) == TEXT


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.gz", gzip.compress(TEXT)[:-9]),
        ("a.xz", TEXT),
    ],
    ids=["cut off", "xz not packed"],
)
def test_open_input_rejects_damaged_compressed_files(tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    with (
        pytest.raises(ToolkitError, match=r"--input .*a\..z is truncated or damag"),
        open_input(str(path), "") as lines,
    ):
        list(lines)
