"""Preprocessing by 1, 2 and 4 processes, and of one corpus in files of several kinds.

    python benchmarks/preprocessing_in_parts.py --text FOLDER [--rounds 3] [--report]

The corpus is the text of all files in the folder (plain or .gz), with one item per line and one
document per paragraph. Each run is the command, start included. Programs alternate, and medians are
reported. Wall seconds end when the folder is closed. Processor seconds are those of all processes;
they depend less on what else the machine does. Each process has one worker. A "given" tokenizer
was trained beforehand. Otherwise, the first process trains one (4,000 pieces from 2 MB), for which
the others wait.

"Column" compares the values, the lengths of the items and the first items of the documents, over
all parts, with those of the text, byte for byte. "Its files" compares the .bin and .idx files.
Paragraphs are rows of JSON lines and of Parquet. The sizes of files decide where parts begin, and a
compressed file is one part.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from harness import machine, parser, publish, table

from toolkit.data.arrow_library import import_pyarrow
from toolkit.data.storage.data_folder import DataFolder

Times = tuple[float, float]
"""Wall and processor seconds."""
COMMAND = [sys.executable, "-m", "toolkit.cli.preprocess", "--workers", "1"]
TRAINED = ["--vocab-size", "4000", "--sentencepiece-megabytes", "2"]


def read_paragraphs(folder: Path) -> Iterator[str]:
    """The paragraphs of all files: lines without blank ones between them."""
    for path in sorted(folder.iterdir()):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        lines: list[str] = []
        for line in chain(data.decode("utf-8-sig").split("\n"), [""]):
            if line.strip():
                lines.append(line.strip())
            elif lines:
                yield "\n".join(lines)
                lines = []


def write_files(paragraphs: Sequence[str], folder: Path) -> dict[str, list[str]]:
    """Kind of file -> the options that read it."""
    arrow = import_pyarrow()
    text = "\n\n".join(paragraphs) + "\n"
    (folder / "corpus.txt").write_text(text, "utf-8")
    (folder / "corpus.txt.zst").write_bytes(
        arrow.compress(text.encode(), codec="zstd", asbytes=True)
    )
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": paragraph}) + "\n" for paragraph in paragraphs)
    rows = arrow.table({"text": paragraphs})
    import_pyarrow("parquet").write_table(rows, folder / "corpus.parquet", row_group_size=20_000)
    return {
        "text": ["--trainpref", str(folder / "corpus.txt")],
        "JSON lines": ["--trainpref", str(folder / "corpus.jsonl"), "--text-field", "text"],
        "Parquet": ["--trainpref", str(folder / "corpus.parquet"), "--text-field", "text"],
        ".zst": ["--trainpref", str(folder / "corpus.txt.zst")],
        "standard input": ["--trainpref", "-"],
    }


def run(
    options: Sequence[str], destdir: Path, processes: int = 0, stdin: Path | None = None
) -> None:
    """Preprocess in one process, or in several that each write their part."""
    command = [*COMMAND, *options, "--destdir", str(destdir)]
    shares = [["--part", f"{n}/{processes}"] for n in range(1, processes + 1)] or [["--overwrite"]]
    with Path(stdin or os.devnull).open("rb") as text:
        quiet = {"stdin": text, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started = [subprocess.Popen([*command, *share], **quiet) for share in shares]
    assert not any([process.wait() for process in started])
    if processes:
        close = [*COMMAND, "--destdir", str(destdir), "--close"]
        subprocess.run(close, check=True, stdout=subprocess.DEVNULL)


def measure(program: Callable[[], None]) -> Times:
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    program()
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def digest_column(folder: DataFolder) -> str:
    """SHA-256 of the values, lengths and first items of documents of all parts, back to back."""
    parts, digest, items = folder.split("train").column("tokens").parts, hashlib.sha256(), 0
    for part in parts:
        digest.update(np.ascontiguousarray(part.values))
    for part in parts:
        digest.update(np.diff(part.offsets))
    for part in parts:
        digest.update(part.document_starts + items)
        items += part.items
    return digest.hexdigest()


def list_column_files(folder: Path) -> dict[str, str]:
    files = [path for path in folder.iterdir() if path.suffix in (".bin", ".idx")]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def compare_kinds(
    kinds: dict[str, list[str]], tokenizer: list[str], scratch: Path
) -> Iterator[tuple[object, ...]]:
    """Rows of the table: whether each kind of file has the column of the text."""
    columns: dict[str, tuple[str, dict[str, str]]] = {}
    for kind, options in [*kinds.items(), ("text, 4 processes", kinds["text"])]:
        folder = scratch / "kind"
        stdin = scratch / "corpus.txt" if "-" in options else None
        run([*options, *tokenizer], folder, 4 if "processes" in kind else 0, stdin)
        opened = DataFolder.open(folder)
        columns[kind] = digest_column(opened), list_column_files(folder)
        parts = opened.split("train").column("tokens").parts
        equal = [
            "equal" if a == b else "differ"
            for a, b in zip(columns[kind], columns["text"], strict=True)
        ]
        yield kind, f"{sum(part.items for part in parts):,}", len(parts), *equal
        shutil.rmtree(folder)


def time_processes(
    text: list[str], tokenizers: dict[str, list[str]], scratch: Path, rounds: int
) -> Iterator[tuple[str, ...]]:
    """Rows of the table: wall and processor seconds by number of processes."""
    programs = [(name, number) for name in tokenizers for number in (1, 2, 4)]
    times: dict[tuple[str, int], list[Times]] = {program: [] for program in programs}
    single = scratch / "single"
    run([*text, *tokenizers["given"]], single)
    for _ in range(rounds):
        for name, number in programs:
            folder, processes = scratch / "timed", number if number > 1 else 0
            options = [*text, *tokenizers[name]]
            times[name, number].append(measure(lambda: run(options, folder, processes)))  # noqa: B023
            if name == "given":
                assert list_column_files(folder) == list_column_files(single)
            shutil.rmtree(folder)
    for name, number in programs:
        wall, cpu = (statistics.median(column) for column in zip(*times[name, number], strict=True))
        once = statistics.median(wall for wall, _ in times[name, 1])
        yield name, str(number), f"{wall:.1f}", f"{cpu:.1f}", f"{once / wall:.2f}"


def main() -> None:
    options = parser(__doc__, rounds=3)
    options.add_argument("--text", required=True, type=Path, help="folder of text files")
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        paragraphs = list(read_paragraphs(args.text))
        kinds = write_files(paragraphs, scratch)
        run([*kinds["text"], *TRAINED], scratch / "tokenizer")
        given = ["--tokenizer-from", str(scratch / "tokenizer")]
        equal = list(compare_kinds(kinds, given, scratch))
        tokenizers = {"given": given, "trained": TRAINED}
        times = list(time_processes(kinds["text"], tokenizers, scratch, args.rounds))
        size = (scratch / "corpus.txt").stat().st_size
    load = f"load {os.getloadavg()[0]:.1f} at the end"
    corpus = f"{len(paragraphs):,} documents, {size / 1e6:.1f} MB of text"
    heads = ["files", "items", "parts", "column", "its files"]
    text = f"{machine()}, {load}\n\n{corpus}\n\n{table(heads, equal)}\n\n"
    heads = ["tokenizer", "processes", "wall seconds", "processor seconds", "faster by"]
    publish(text + table(heads, times), args.report, "Preprocessing in parts", __doc__)


if __name__ == "__main__":
    main()
