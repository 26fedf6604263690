"""Check that a refactoring changes no loss.

Trains the same tiny model at two revisions and compares all logged metrics except times.

    python tools/compare_losses.py [OLD [NEW]]     # revisions; defaults: HEAD and the work tree

Exit code 0 when the traces are identical, 1 when they differ.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
METRICS = ("update", "epoch", "loss", "mlm_loss", "gradient_norm", "lr", "accuracy")
WORDS = ["the", "a", "small", "old", "red", "house", "river", "saw", "took", "under", "near"]


def make_text(sentences: int = 2000) -> str:
    """Sentences from a linear congruential generator: the same everywhere, no files needed."""
    state, lines = 1, []
    for _ in range(sentences):
        line = []
        for _ in range(8):
            state = (state * 1103515245 + 12345) % 2**31
            line.append(WORDS[state // 65536 % len(WORDS)])
        lines.append(" ".join(line))
    return "\n".join(lines) + "\n"


def train(tree: Path, folder: Path) -> list[dict[str, object]]:
    """Preprocess and train with the code of `tree`; return the logged metrics."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}

    def run_command(name: str, *arguments: str) -> None:
        call = [sys.executable, "-m", f"toolkit.cli.{name}", *arguments]
        subprocess.run(call, check=True, env=environment, cwd=folder, stdout=subprocess.DEVNULL)

    (folder / "text.txt").write_text(make_text())
    run_command(
        *("preprocess", "--trainpref", "text.txt", "--validpref", "text.txt"),
        *("--destdir", "data", "--vocab-size", "60"),
    )
    run_command(
        *("train", "data", "--arch", "composite_bert_tiny", "--task", "mlm", "--save-dir", "run"),
        *("--max-update", "50", "--log-interval", "1", "--precision", "fp32", "--lr", "1e-3"),
    )
    records = map(json.loads, (folder / "run" / "metrics.jsonl").read_text().splitlines())
    return [{k: r[k] for k in METRICS if k in r} for r in records]


def main() -> int:
    old, new = [*sys.argv[1:], "HEAD"][0], sys.argv[2] if len(sys.argv) > 2 else None
    traces = []
    for revision in (old, new):
        with tempfile.TemporaryDirectory() as name:
            folder, tree = Path(name), ROOT
            if revision is not None:
                tree = folder / "tree"
                git = ["git", "-C", str(ROOT), "worktree"]
                subprocess.run([*git, "add", "--detach", "-q", str(tree), revision], check=True)
            try:
                traces.append(train(tree, folder))
            finally:
                if revision is not None:
                    subprocess.run([*git, "remove", "--force", str(tree)], check=True)
    differing = [(a, b) for a, b in zip(*traces, strict=False) if a != b]
    same = not differing and len(traces[0]) == len(traces[1])
    print(f"{len(traces[0])} records: {'identical' if same else f'{len(differing)} differ'}")
    for a, b in differing[:3]:
        print(f"  {old}: {a}\n  {new or 'work tree'}: {b}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
