"""Damaged files of rows: read alike, or one line that names the file; nothing in between."""

import gzip
import pickle

import pytest

from tests.helpers.row_files import COMPRESSORS, WRITERS
from toolkit.common.errors import ToolkitError
from toolkit.data.records import read_row_lines
from toolkit.data.text_files import whole_file

TEXTS = [f"the old café number {n} by the river" for n in range(60)]
DAMAGES = {
    "truncated": lambda data: data[: len(data) // 2],
    "without its last bytes": lambda data: data[:-7],
    "flipped bit": lambda data: data[:777] + bytes([data[777] ^ 0x80]) + data[778:],
    "NUL": lambda data: data[:300] + b"\0" + data[300:],
    "byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "UTF-16": lambda data: data.decode("utf-8", "replace").encode("utf-16"),
    "Latin-1": lambda data: data.replace("é".encode(), b"\xe9"),
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "CR only": lambda data: data.replace(b"\n", b"\r"),
    "ragged row": lambda data: data.replace(b"7", b'7\t,"', 1),
    "missing column": lambda data: data.replace(b"text", b"body"),
    "open quote": lambda data: data.replace(b"the", b'"the', 1),
    "blank lines at the end": lambda data: data + b"\n\n",
    "pickle": lambda data: pickle.dumps({"text": "x"}),
    "empty": lambda data: b"",
    "compressed twice": gzip.compress,
}
HARMLESS = {"byte order mark", "CRLF", "blank lines at the end"}


@pytest.mark.parametrize(
    ("suffix", "packing"),
    [*((suffix, "") for suffix in WRITERS), *((".jsonl", packing) for packing in COMPRESSORS)],
)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_rows_are_read_alike_or_refused(tmp_path, suffix, packing, damage):
    path = tmp_path / f"a{suffix}"
    WRITERS[suffix](path, TEXTS)
    binary = suffix in (".parquet", ".arrow")
    data = DAMAGES[damage](path.read_bytes())
    path = tmp_path / f"a{suffix}{'' if binary else packing}"
    path.write_bytes(data if binary else COMPRESSORS[packing](data))
    chunk = whole_file(path)._replace(field="text")
    try:
        found = [line for lines in read_row_lines(chunk, 1 << 20) for line in lines.lines]
    except ToolkitError as error:
        assert binary or damage not in HARMLESS
        assert str(path) in str(error) and "\n" not in str(error)
        return
    cut = damage in ("truncated", "without its last bytes") and suffix in (".csv", ".tsv")
    assert (
        found in ([], TEXTS)
        or (cut and TEXTS[: len(found) - 1] == found[:-1])
        or (damage in ("open quote", "ragged row") and len(found) == len(TEXTS))
    )


@pytest.mark.parametrize("packing", [".gz", ".xz", ".zst"])
@pytest.mark.parametrize("kept", [slice(None, -3), slice(40, None), slice(0, 60)])
def test_damaged_compression_is_refused(tmp_path, packing, kept):
    WRITERS[".jsonl"](tmp_path / "a.jsonl", TEXTS)
    path = tmp_path / f"a.jsonl{packing}"
    path.write_bytes(COMPRESSORS[packing]((tmp_path / "a.jsonl").read_bytes())[kept])
    with pytest.raises(ToolkitError, match=path.name):
        list(read_row_lines(whole_file(path)._replace(field="text"), 1 << 20))
