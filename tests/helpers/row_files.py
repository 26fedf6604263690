"""Texts as rows of files of every kind."""

from __future__ import annotations

import csv
import gzip
import json
import lzma
from pathlib import Path

import pytest


def write_json_lines(path: Path, texts: list[str]) -> None:
    rows = [json.dumps({"id": n, "text": text}) + "\n" for n, text in enumerate(texts)]
    path.write_text("".join(rows), encoding="utf-8")


def write_csv(path: Path, texts: list[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *enumerate(texts)])


def write_tsv(path: Path, texts: list[str]) -> None:
    rows = ["id\ttext\n", *(f"{n}\t{text}\n" for n, text in enumerate(texts))]
    path.write_text("".join(rows), encoding="utf-8")


def write_parquet(path: Path, texts: list[str]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(make_table(texts), path, row_group_size=40)


def write_arrow(path: Path, texts: list[str]) -> None:
    table = make_table(texts)
    with pytest.importorskip("pyarrow").ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table, max_chunksize=40)


def make_table(texts):
    arrow = pytest.importorskip("pyarrow")
    return arrow.table({"id": range(len(texts)), "text": texts})


def compress_zst(data: bytes) -> bytes:
    return pytest.importorskip("pyarrow").compress(data, codec="zstd", asbytes=True)


WRITERS = {
    ".jsonl": write_json_lines,
    ".csv": write_csv,
    ".tsv": write_tsv,
    ".parquet": write_parquet,
    ".arrow": write_arrow,
}
COMPRESSORS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": compress_zst}
