import gzip
import pickle
import struct
import sys

import pytest

from tests.helpers.preprocessing import preprocess_config
from tests.helpers.row_files import COMPRESSORS, WRITERS, make_table, write_arrow
from toolkit.cli.preprocess import main
from toolkit.common.errors import ToolkitError
from toolkit.data.preprocess import preprocess
from toolkit.data.records import read_row_lines
from toolkit.data.text_files import whole_file

FINE = '{"text": "fine"}\n'


@pytest.fixture
def error(tmp_path, model_file):
    """The message of preprocessing a file, without its folder."""

    def run(path, **options):
        given = {"sentencepiece_model": str(model_file), "destdir": str(tmp_path / "out")}
        with pytest.raises(ToolkitError) as caught:
            preprocess(
                preprocess_config(
                    **{
                        "trainpref": str(path),
                        **given,
                        "text_field": "text",
                        "workers": 1,
                        **options,
                    }
                )
            )
        return str(caught.value).replace(f"{tmp_path}/", "")

    return run


@pytest.mark.parametrize(
    "row, message",
    [
        ('{"body": "x", "id": 1}', "the row has no field 'text'. Its fields are 'body', 'id'."),
        ('{"text": null}', "the field 'text' must hold a string, but holds null."),
        ('{"text": 3}', "the field 'text' must hold a string, but holds a number."),
        ('{"text": ["x"]}', "the field 'text' must hold a string, but holds a list."),
        ('["x"]', "expected a JSON object, found a list. Write each row as an object"),
        ('{"text": "x"', "expected JSON: Expecting ',' delimiter at column 13. Correct the line."),
        ('{"text": "x', "expected JSON: Unterminated string starting at column 10. Correct"),
        ("[" * 100000, "expected JSON: nested too deeply"),
        ('{"text": "\\ud800"}', "found half of a surrogate pair, \\ud800, in the text."),
        ('{"text": "\\u0000"}', "found a NUL character in the text. Remove it."),
        ('{"text": "%s"}' % ("x" * 600), "expected at most 500 bytes in a line, found 600"),
    ],
)
def test_bad_json_lines_are_named_by_line(error, text_file, row, message):
    path = text_file(FINE + "\n" + row + "\n" + FINE, "a.jsonl")
    assert error(path, max_line_bytes=500).startswith(f"a.jsonl:3: {message}")


def test_json_over_several_lines_is_refused_with_the_command_that_converts_it(error, text_file):
    message = "a.json:1: expected a JSON value in each line, found one over several. Convert a list"
    for text in ('[\n{"text": "x"}\n]\n', '[{"text": "x"},\n{"text": "y"}]'):
        assert error(text_file(text, "a.json")).startswith(message)


@pytest.mark.parametrize(
    "rows, message",
    [
        ('1,"x\ny"\n2\n', "a.csv:4: a row must have 2 columns, as the first line, but has 1."),
        ('1,x\n2,"y\n3,z\n', "a.csv:3: the row that starts here is malformed: unexpected end"),
        ("1,x\n2,y\0\n", "a.csv:3: found a NUL byte"),
    ],
)
def test_bad_rows_of_csv_are_named_by_line(error, text_file, rows, message):
    assert error(text_file("id,text\n" + rows, "a.csv")).startswith(message)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".arrow"])
def test_unknown_columns_are_reported_with_those_that_exist(error, tmp_path, suffix):
    WRITERS[suffix](tmp_path / f"a{suffix}", ["x"])
    found = error(tmp_path / f"a{suffix}", text_field="body")
    assert found.startswith(f"a{suffix}") and "'id', 'text'." in found


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_nulls_in_arrow_data_are_named_by_row(error, tmp_path, suffix):
    WRITERS[suffix](tmp_path / f"a{suffix}", ["x"] * 70 + [None, "y"])
    message = f"a{suffix}, row 71: the field 'text' must hold a string, but holds null."
    assert error(tmp_path / f"a{suffix}").startswith(message)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.jsonl.gz", "a.parquet"])
def test_rows_given_as_plain_text_are_rejected_with_the_remedy(tmp_path, capsys, name, model_file):
    suffix = ".jsonl" if "json" in name else f".{name.split('.')[1]}"
    path = tmp_path / name
    WRITERS[suffix](path, ["some text"])
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(path.read_bytes()))
    options = ["--sentencepiece-model", str(model_file), "--destdir", str(tmp_path / "out")]
    assert main(["--trainpref", str(path), *options]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert f"{path} holds rows, not plain text. Name the field that holds the text with" in lines[0]
    assert "'text'" in lines[0] and not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.txt.zst", "a.jsonl.zst"])
def test_missing_pyarrow_is_reported_with_the_command(error, text_file, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    field = "" if ".txt" in name else "text"
    message = error(text_file("some text", name), text_field=field)
    assert message.endswith("not installed. Run pip install 'toolkit-seq[data]'.")


def test_standard_input_is_refused_with_the_remedy(error):
    assert error("-").startswith("trainpref must name files, which are read twice, but - is")


def test_invalid_utf8_in_arrow_data_is_named_by_row(error, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    texts = arrow.array([b"fine", b"na\xefve"]).view(arrow.string())
    pytest.importorskip("pyarrow.parquet").write_table(
        arrow.table({"text": texts}), tmp_path / "a.parquet"
    )
    assert error(tmp_path / "a.parquet").startswith("a.parquet, row 2: expected UTF-8, but")


def test_wrong_offsets_in_arrow_data_are_refused(error, tmp_path):
    write_arrow(tmp_path / "a.arrow", ["one", "two", "three"])
    data, path = (tmp_path / "a.arrow").read_bytes(), tmp_path / "b.arrow"
    path.write_bytes(data.replace(struct.pack("<2i", 6, 11), struct.pack("<2i", 6, 9999)))
    assert error(path).startswith("b.arrow is truncated or damaged: ")


def test_parquet_pages_must_match_their_checksums(error, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(
        make_table(["one", "two"]),
        path,
        write_page_checksum=True,
        **{"use_dictionary": False, "write_statistics": False},
    )
    path.write_bytes(path.read_bytes().replace(b"two", b"ten"))
    assert error(path).startswith("a.parquet is truncated or damaged: ")


def test_statistics_that_do_not_fit_the_schema_do_not_end_the_process(error, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = make_table(["one", "two"]).select(["text"])
    parquet.write_table(table, path := tmp_path / "a.parquet")
    data, optional = path.read_bytes(), b"\x25\x02\x18\x04text"
    assert data.count(optional) == 1
    path.write_bytes(data.replace(optional, b"\x25\x00\x18\x04text"))
    assert error(path).startswith("a.parquet is truncated or damaged: ")


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
