"""Faults of rows are named with file and line; nothing is dropped silently."""

import gzip
import io
import sys

import pytest

from tests.helpers.preprocessing import preprocess_config
from tests.helpers.row_files import WRITERS, compress_zst, make_table
from toolkit.cli.preprocess import main
from toolkit.common.errors import ToolkitError
from toolkit.data.preprocess import preprocess

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


@pytest.mark.parametrize("ending", ["jsonl", "csv", "tsv"])
def test_very_long_row_is_to_be_divided(error, text_file, monkeypatch, ending):
    monkeypatch.setattr("toolkit.data.records.MAX_ROW_BYTES", 100)
    long = "x" * 200
    rows = FINE + f'{{"text": "{long}"}}\n' if ending == "jsonl" else f"text\n{long}\n"
    expected = f"a.{ending}:2: expected at most 100 bytes in a line, found "
    found = error(text_file(rows, f"a.{ending}"))
    assert found.startswith(expected) and found.endswith(" or more. Divide it into several rows.")


def test_bad_rows_of_a_cut_file_are_named_by_their_line_in_the_file(error, text_file, monkeypatch):
    monkeypatch.setattr("toolkit.data.preprocessing.segmentation.PART_BYTES", 100)
    path = text_file(FINE * 50 + '{"text": 1}\n' + FINE * 9, "a.jsonl")
    assert error(path).startswith("a.jsonl:51: the field 'text' must hold a string")


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


def test_csv_with_invalid_utf8_is_named_by_line(error, text_file):
    path = text_file(b"id,text\n1,na\xefve\n", "a.csv")
    assert error(path).startswith("a.csv:2: expected UTF-8, found byte 0xef at column 5.")


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".arrow"])
def test_unknown_columns_are_reported_with_those_that_exist(error, tmp_path, suffix):
    WRITERS[suffix](tmp_path / f"a{suffix}", ["x"])
    found = error(tmp_path / f"a{suffix}", text_field="body")
    assert found.startswith(f"a{suffix}") and found.endswith("'id', 'text'.")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_nulls_in_arrow_data_are_named_by_row(error, tmp_path, suffix):
    WRITERS[suffix](tmp_path / f"a{suffix}", ["x"] * 70 + [None, "y"])
    message = f"a{suffix}, row 71: the field 'text' must hold a string, but holds null."
    assert error(tmp_path / f"a{suffix}").startswith(message)


def test_columns_of_another_type_are_rejected(error, tmp_path):
    WRITERS[".parquet"](tmp_path / "a.parquet", ["x"])
    message = "a.parquet, row 1: the field 'id' must hold a string, but holds a number."
    assert error(tmp_path / "a.parquet", text_field="id").startswith(message)


def test_categories_that_are_strings_are_texts(tmp_path, model_file):
    table = make_table(["red house", "river", "red house"])
    column = table.column("text").dictionary_encode()
    path = tmp_path / "a.parquet"
    pytest.importorskip("pyarrow.parquet").write_table(table.set_column(1, "text", column), path)
    given = {"sentencepiece_model": str(model_file), "destdir": str(tmp_path / "out")}
    preprocess(preprocess_config(trainpref=str(path), workers=1, text_field="text", **given))


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("kept", [0.3, 0.99])
def test_truncated_arrow_data_are_reported(error, tmp_path, suffix, kept):
    path = tmp_path / f"a{suffix}"
    WRITERS[suffix](path, ["some text"] * 500)
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    message = error(path)
    assert message.startswith(f"a{suffix} is truncated or damaged: ")
    assert message.endswith("Copy it again.") and "\n" not in message


def test_truncated_zst_is_reported(error, text_file):
    packed = compress_zst(FINE.encode() * 99)
    message = error(text_file(packed[:-2], "a.jsonl.zst"))
    assert "a.jsonl.zst:1: cannot read further: " in message and "Truncated" in message


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


def test_a_table_with_two_equal_columns_is_rejected_with_its_columns(error, tmp_path):
    table = make_table(["x"]).rename_columns(["text", "text"])
    with pytest.importorskip("pyarrow").ipc.new_stream(tmp_path / "a.arrow", table.schema) as file:
        file.write_table(table)
    assert error(tmp_path / "a.arrow").startswith("a.arrow has two columns 'text'.")
    message = "a.arrow holds rows, not plain text. Name the field that holds the text with"
    assert error(tmp_path / "a.arrow", text_field="") == f"{message} --text-field: 'text'."


def test_plain_text_with_a_text_field_is_rejected(error, text_file):
    message = error(text_file("some text\n"))
    assert message.startswith("a file of rows must end in one of .jsonl, ")
    assert "text.txt does not. Rename it, or leave out --text-field for plain text." in message


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.txt.zst", "a.jsonl.zst"])
def test_missing_pyarrow_is_reported_with_the_command(error, text_file, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    field = "" if ".txt" in name else "text"
    message = error(text_file("some text", name), text_field=field)
    assert message.endswith("not installed. Run pip install 'toolkit-seq[data]'.")


def test_long_items_of_parquet_are_named_by_row(error, tmp_path):
    WRITERS[".parquet"](tmp_path / "a.parquet", ["red house"] * 50 + ["red " * 50])
    message = error(tmp_path / "a.parquet", max_item_tokens=20)
    assert message.startswith("a.parquet, row 51: an item must have at most 20 tokens")


def test_faults_of_standard_input_name_it(error, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(FINE.encode() + b'{"text": 1}')))
    message = error("-", workers=2)
    assert message.startswith("standard input:2: the field 'text' must hold a string")


def test_empty_standard_input_is_rejected(error, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    assert error("-", text_field="").startswith("standard input must hold text, but is empty.")


def test_json_lines_from_standard_input_are_not_read_as_plain_text(error, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"body": "one"}')))
    message = "standard input holds rows, not plain text. Name the field that holds the text with "
    assert error("-", text_field="").startswith(f"{message}--text-field: 'body'.")


def test_standard_input_is_read_for_one_split_only(error):
    assert error("-", validpref="-").startswith("standard input (-) can be given only once")


def test_nulls_in_cut_parquet_are_named_by_their_row_in_the_file(error, tmp_path, monkeypatch):
    monkeypatch.setattr("toolkit.data.preprocessing.segmentation.PART_BYTES", 100)
    WRITERS[".parquet"](tmp_path / "a.parquet", ["x"] * 170 + [None])
    assert error(tmp_path / "a.parquet").startswith("a.parquet, row 171: ")


def test_arrow_streams_without_their_end_are_reported(error, tmp_path):
    WRITERS[".arrow"](tmp_path / "a.arrow", ["some text"] * 50)
    (tmp_path / "a.arrow").write_bytes((tmp_path / "a.arrow").read_bytes()[:-8])
    assert error(tmp_path / "a.arrow").startswith("a.arrow is truncated or damaged: the end of")


def test_invalid_utf8_in_arrow_data_is_named_by_row(error, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    texts = arrow.array([b"fine", b"na\xefve"]).view(arrow.string())
    pytest.importorskip("pyarrow.parquet").write_table(
        arrow.table({"text": texts}), tmp_path / "a.parquet"
    )
    assert error(tmp_path / "a.parquet").startswith("a.parquet, row 2: expected UTF-8, but")
