"""Speed of preprocessing, of opening a data folder, and of making batches.

    python benchmarks/data_speed.py --text FOLDER,FOLDER [--rounds 5] [--report]

Wall seconds unless said otherwise; compared programs alternate and medians are reported.
Preprocessing runs the command, with a SentencePiece model trained beforehand (16,000 pieces, lower
case, sentences of running text). "Binarizing" is the command's own report, without starting Python.
On a busy machine use the processor seconds: the bound is the parent's plus half of the workers',
the best that two idle cores allow. Batches of 4,096 tokens are read, masked and collated in one
process; the speed is tokens per second of that process's time. Waiting is the share of wall time
that a consumer with 50 ms of computation per micro-batch waits for one worker.
"""

from __future__ import annotations

import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import cores, machine, parser, publish, seconds, table

from toolkit import preprocess
from toolkit.data.loading.batching import BatchPlanner
from toolkit.data.loading.loader import BatchLoader
from toolkit.data.samples.masking import MASKING_STRATEGIES
from toolkit.data.storage.column_files import CheckedColumnPart, ColumnWriter
from toolkit.data.storage.data_folder import DataFolder
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.pretraining.mlm import MaskedExamples, MaskingConfig

Row = tuple[str, str]


def preprocess_once(text: str, folder: Path, workers: int, tokenizer: Path) -> dict[str, float]:
    """Wall, binarizing and processor seconds of one run of the command."""
    command = [
        *[sys.executable, "-m", "toolkit.cli.preprocess", "--trainpref", text, "--overwrite"],
        *["--destdir", str(folder), "--workers", str(workers), "--segment-by", "sentences"],
        *["--valid-fraction", "0.02", "--tokenizer-from", str(tokenizer)],
    ]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    output = subprocess.run(
        command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ).stdout
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    match = re.search(r"([\d,]+) tokens in ([\d.]+) s", output)
    assert match, output
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    tokens = float(match[1].replace(",", ""))
    return {"wall": wall, "binarizing": float(match[2]), "cpu": cpu, "tokens": tokens}


def measure_preprocessing(text: str, scratch: Path, rounds: int) -> list[Row]:
    tokenizer = scratch / "sentencepiece"
    options = {"segment_by": "sentences", "lowercase": True, "overwrite": True, "vocab_size": 16000}
    begin = time.perf_counter()
    preprocess(trainpref=text, destdir=str(tokenizer), **options)
    whole = time.perf_counter() - begin
    by_workers: dict[int, list[dict[str, float]]] = {1: [], 2: []}
    for _ in range(rounds):
        for workers, runs in by_workers.items():
            runs.append(preprocess_once(text, scratch / "data", workers, tokenizer))
    middle = {
        (workers, what): statistics.median(run[what] for run in runs)
        for workers, runs in by_workers.items()
        for what in runs[0]
    }
    # what does not run in the workers: the command on almost no text
    few = scratch / "few.txt"
    few.write_text("Some words.\n\n" * 1000)
    parent = preprocess_once(str(few), scratch / "few", 2, tokenizer)["cpu"]
    bound = parent + (middle[2, "cpu"] - parent) / 2
    return [
        (f"tokens, {cores()} cores", f"{middle[1, 'tokens']:,.0f}"),
        *(
            (
                f"{workers} worker{'s' * (workers > 1)}: command, binarizing, processor",
                f"{middle[workers, 'wall']:.2f} s, {middle[workers, 'binarizing']:.1f} s "
                f"({middle[workers, 'tokens'] / middle[workers, 'binarizing']:,.0f} tokens/s), "
                f"{middle[workers, 'cpu']:.2f} s",
            )
            for workers in by_workers
        ),
        (
            "2 workers faster by: command, binarizing, bound by processor time",
            f"{middle[1, 'wall'] / middle[2, 'wall']:.2f}, "
            f"{middle[1, 'binarizing'] / middle[2, 'binarizing']:.2f}, "
            f"{middle[1, 'cpu'] / bound:.2f}",
        ),
        ("with training SentencePiece on 20 MB of it, all cores", f"{whole:.1f} s"),
    ]


def measure_tokenizers(text: str, scratch: Path, rounds: int) -> list[Row]:
    """Binarizing with one worker, with tokenizers trained beforehand."""
    options = {"segment_by": "sentences", "lowercase": True, "vocab_size": 16000, "trainpref": text}
    for kind in ("words", "wordpiece"):
        preprocess(destdir=str(scratch / kind), tokenizer=kind, **options)
    rates: dict[str, list[float]] = {"sentencepiece": [], "words": [], "wordpiece": []}
    for _ in range(rounds):
        for kind, values in rates.items():
            run = preprocess_once(text, scratch / "again", 1, scratch / kind)
            values.append(run["tokens"] / run["binarizing"])
    return [
        (f"binarizing with 1 worker, {kind}", f"{statistics.median(values):,.0f} tokens/s")
        for kind, values in rates.items()
    ]


def measure_opening(scratch: Path) -> list[Row]:
    def opener(items: int) -> Callable[[], object]:
        writer = ColumnWriter(scratch / f"opening.{items}", "<u2")
        writer.add(np.zeros(items, np.int64), np.ones(items, np.int64), np.ones(items, bool))
        entry = writer.finish()
        return lambda: CheckedColumnPart(writer.stem, entry)

    few, many = opener(1_000), opener(10_000_000)
    times = [(seconds(few), seconds(many)) for _ in range(200)]
    return [
        (f"opening {name} items", f"{1e6 * statistics.median(column):.0f} us")
        for name, column in zip(("1e3", "1e7"), zip(*times, strict=True), strict=True)
    ]


def measure_batches(folder: DataFolder, rounds: int) -> list[Row]:
    rows = []
    for samples, pairs in (("blocks", "chang"), ("pairs", "chang"), ("pairs", "electra")):
        for masking in MASKING_STRATEGIES:
            config = MaskingConfig(masking=masking, sample_mode=samples, pair_mode=pairs)
            examples = MaskedExamples(config, SplitSource(folder, "train", seed=1, training=True))
            loader = BatchLoader(examples, max_tokens=4096, batch_size=None, seed=1)
            rates = [tokens_per_second(loader, epoch) for epoch in range(rounds + 1)][1:]
            rate = f"{statistics.median(rates) / 1e6:.1f}, at best {max(rates) / 1e6:.1f}"
            name = samples if samples == "blocks" else f"{samples} {pairs}"
            rows.append((f"M tokens/s, T=128, {name}, {masking}", rate))
    return rows


def tokens_per_second(loader: BatchLoader, epoch: int, max_updates: int = 500) -> float:
    tokens, begin = 0, time.process_time()
    for (batch,), _ in zip(loader.updates(epoch), range(max_updates), strict=False):
        tokens += batch.tokens
    return tokens / (time.process_time() - begin)


def measure_waiting(folder: DataFolder) -> list[Row]:
    examples = MaskedExamples(MaskingConfig(), SplitSource(folder, "train", seed=1, training=True))
    loader = BatchLoader(examples, max_tokens=4096, batch_size=None, seed=1, workers=1)
    updates = loader.updates(1)
    next(updates)
    begin, before = time.perf_counter(), loader.waited_seconds
    for _ in range(100):
        time.sleep(0.05)
        next(updates)
    share = (loader.waited_seconds - before) / (time.perf_counter() - begin)
    loader.close()
    return [("share of time waited for data, 1 worker", f"{share:.2%}")]


def measure_planning() -> list[Row]:
    lengths = np.random.default_rng(0).integers(4, 129, 5_000_000)
    begin = time.perf_counter()
    planner = BatchPlanner(lengths, max_tokens=4096, batch_size=None, seed=1, fingerprint="")
    built = time.perf_counter() - begin
    begin = time.perf_counter()
    planner.epoch(1)
    epoch = time.perf_counter() - begin
    what = f"5e6 examples into {len(planner):,} micro-batches: once, each epoch"
    return [(what, f"{built:.2f} s, {epoch:.2f} s")]


def main() -> None:
    options = parser(__doc__, rounds=5)
    options.add_argument("--text", required=True, help="as for --trainpref; about 70 MB")
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        rows = measure_preprocessing(args.text, scratch, args.rounds)
        rows += measure_tokenizers(args.text, scratch, args.rounds)
        folder = DataFolder.open(scratch / "data")
        rows += measure_opening(scratch) + measure_batches(folder, args.rounds)
        rows += measure_planning() + measure_waiting(folder)
    load = f"load {os.getloadavg()[0]:.1f} at the end, NumPy {np.__version__}"
    text = f"{machine()}, {load}\n\n{table(['measurement', 'result'], rows)}\n"
    publish(text, args.report, "Data speed", __doc__)


if __name__ == "__main__":
    main()
