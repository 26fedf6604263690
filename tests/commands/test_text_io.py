import gzip

import pytest

from toolkit.commands.text_io import open_input
from toolkit.common.errors import ToolkitError

TEXT = b"one\r\n\ntwo \xff\n" * 1000


@pytest.mark.parametrize(
    ("name", "data"),
    [("a.gz", gzip.compress(TEXT)[:-9]), ("a.xz", TEXT)],
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
