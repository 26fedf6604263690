"""Start-up: the time from a command to its first update or answer, and what was imported by then.

    python benchmarks/startup.py [--rounds 9] [--against DIR] [--report]

Each program is a process of its own on one thread. The programs alternate. `toolkit-train` is
timed until it prints its first update (`taco_tiny`, masked position modeling, 4 sentences), and
`toolkit-predict` until it has answered one sentence with a classifier of the size `bert_tiny`.
`import torch` is the part that no change of the toolkit can save. `--against` times another
checkout of the toolkit too, such as `git worktree add DIR COMMIT` makes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from harness import machine, parser, publish, table

HERE = Path(__file__).resolve().parents[1]
TEXT = "She opened the gate and went into the garden.\nThe robin sat on the wall.\n" * 400
FILMS = "text\tmood\n" + "a lovely film\tgood\na dull film\tbad\n" * 16
PREPARATION = [
    "preprocess --trainpref book.txt --valid-fraction 0.1 --tokenizer words --destdir data",
    "preprocess --format tsv --text-columns text --label-column mood --trainpref films.tsv "
    "--validpref films.tsv --tokenizer words --destdir films",
    "train films --arch bert_tiny --task glue --max-update 2 --batch-size 8 --save-dir moods",
]
COMMANDS = {
    "toolkit-train to its first update": "train data --arch taco_tiny --task mpm --max-update 1 "
    "--batch-size 4 --checkpoint.no-save --save-dir run",
    "toolkit-predict, one sentence": "predict --path moods --input one.txt",
    "toolkit-train --help": "train --help",
}


def first_line(arguments: list[str], folder: Path, checkout: Path, start: str) -> float:
    """Seconds until a Python process prints a line that begins with `start`."""
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None, "it is a pipe"
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith(start):
                seconds = time.perf_counter() - began
                process.stdout.read()
                return seconds
    raise SystemExit(f"{' '.join(arguments)} failed in {folder}:\n{''.join(lines)}")


def toolkit(command: str) -> list[str]:
    name, *rest = command.split()
    return ["-m", f"toolkit.cli.{name}", *rest]


def prepare(folder: Path, checkout: Path) -> None:
    """A text, a table and a classifier, which each version makes for itself."""
    folder.mkdir()
    (folder / "book.txt").write_text(TEXT)
    (folder / "films.tsv").write_text(FILMS)
    (folder / "one.txt").write_text("a lovely film\n")
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    for command in PREPARATION:
        subprocess.run(
            [sys.executable, *toolkit(command)],
            cwd=folder,
            env=environment,
            check=True,
            capture_output=True,
        )


def time_start_up(
    checkouts: Mapping[str, Path], folder: Path, rounds: int
) -> dict[tuple[str, str], float]:
    """Median seconds by command and checkout; the first round is not counted."""
    times: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds + 1):
        importing = ["-c", "import torch; print('done')"]
        seconds = first_line(importing, folder, HERE, "done")
        for name in checkouts:
            times.setdefault(("import torch", name), []).append(seconds)
        for command, words in COMMANDS.items():
            start = "train " if "update" in command else ""
            for name, checkout in checkouts.items():
                seconds = first_line(toolkit(words), folder / name, checkout, start)
                times.setdefault((command, name), []).append(seconds)
    return {key: statistics.median(values[1:]) for key, values in times.items()}


def main() -> None:
    options = parser(__doc__ or "", rounds=9)
    options.add_argument("--against", type=Path, help="another checkout of the toolkit")
    c = options.parse_args()
    checkouts = {"this": HERE} | ({"other": c.against.resolve()} if c.against else {})
    with tempfile.TemporaryDirectory() as name:
        for checkout, path in checkouts.items():
            prepare(Path(name, checkout), path)
        medians = time_start_up(checkouts, Path(name), c.rounds)
    rows = [
        [command, *(f"{medians[command, name]:.2f}" for name in checkouts)]
        for command in ["import torch", *COMMANDS]
    ]
    head = f"Seconds, medians of {c.rounds} rounds; {machine()}"
    text = f"{head}\n\n{table(['command', *checkouts], rows)}"
    publish(text, c.report, "Start-up", __doc__ or "")


if __name__ == "__main__":
    main()
