"""The same corpus in any kind of file gives the same columns."""

import hashlib
from pathlib import Path

import pytest

from tests.helpers.preprocessing import preprocess_config
from tests.helpers.row_files import COMPRESSORS, WRITERS
from toolkit.data.preprocess import preprocess
from toolkit.data.storage.data_folder import DataFolder


@pytest.fixture
def columns(tmp_path, model_file):
    """Preprocesses a file; returns column file -> digest."""

    def run(path, **options):
        destdir = tmp_path / f"data-{path.name}"
        given = {"sentencepiece_model": str(model_file), "destdir": str(destdir), "workers": 1}
        preprocess(preprocess_config(**{"trainpref": str(path), **given, **options}))
        opened = DataFolder.open(options.get("destdir", destdir))
        assert not any(file.is_dir() for file in Path(opened.path).iterdir())
        files = [file for file in Path(opened.path).iterdir() if file.suffix == ".npy"]
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    return run


@pytest.fixture
def text(random_prose):
    """Documents of up to 7 lines, with lines to quote and letters beyond ASCII."""
    return '"an old", red\tCafé\n' * 2 + "\n" + random_prose(200).rstrip("\n") + "\n"


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("segment_by", ["lines", "sentences"])
def test_rows_that_are_lines_give_the_columns_of_the_text(
    tmp_path, columns, text, suffix, segment_by
):
    text = text.replace("\t", " ")
    (tmp_path / "plain.txt").write_text(text, encoding="utf-8")
    path = tmp_path / f"rows{suffix}"
    WRITERS[suffix](path, text.removesuffix("\n").split("\n"))
    found = columns(path, text_field="text", rows="lines", segment_by=segment_by)
    assert found == columns(tmp_path / "plain.txt", segment_by=segment_by)


@pytest.mark.parametrize("suffix", [suffix for suffix in WRITERS if suffix != ".tsv"])
def test_rows_that_are_documents_give_the_columns_of_documents(tmp_path, columns, text, suffix):
    (tmp_path / "plain.txt").write_text(text, encoding="utf-8")
    WRITERS[suffix](tmp_path / f"rows{suffix}", text.split("\n\n"))
    found = columns(tmp_path / f"rows{suffix}", text_field="text")
    assert found == columns(tmp_path / "plain.txt")


@pytest.mark.parametrize("packing", COMPRESSORS)
def test_compressed_files_give_the_columns_of_plain_ones(tmp_path, columns, text, packing):
    (tmp_path / "plain.txt").write_text(text, encoding="utf-8")
    WRITERS[".jsonl"](tmp_path / "plain.jsonl", text.split("\n\n"))
    whole = columns(tmp_path / "plain.txt")
    for name, options in {"plain.txt": {}, "plain.jsonl": {"text_field": "text"}}.items():
        packed = tmp_path / f"packed-{name}{packing}"
        packed.write_bytes(COMPRESSORS[packing]((tmp_path / name).read_bytes()))
        assert columns(packed, **options) == whole


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_large_files_are_cut_between_rows_for_several_workers(
    tmp_path, columns, text, suffix, monkeypatch
):
    path = tmp_path / f"rows{suffix}"
    WRITERS[suffix](path, text.split("\n"))
    whole = columns(path, text_field="text")
    monkeypatch.setattr("toolkit.data.preprocessing.input_files.PART_BYTES", 1000)
    folders = []
    for workers in (1, 2):
        destdir = tmp_path / f"workers-{workers}"
        columns(path, text_field="text", workers=workers, destdir=str(destdir))
        folders.append(DataFolder.open(destdir))
    folders.append(DataFolder.open(tmp_path / f"data-{path.name}"))
    assert whole and len({folder.fingerprint for folder in folders}) == 1
