"""Check runs of the speedrun and print their rows: python examples/speedrun/verify.py DATA RUN...

DATA is the data folder of the rules. The last checkpoint of each run is evaluated in fp32 with the
masks of the rules, whatever it was trained with.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from toolkit.checkpoints.load import read_starts
from toolkit.cli.validate import main as validate
from toolkit.data.storage.data_folder import open_folder

TEXT = "66b9b230e0eff42dffcce74665d788ee677b27c1bf3c3f8896e04206be078e9f"
"""Digest of the data folder."""
TARGET = 4.5
MASKS = {
    "sample-mode": "blocks",
    "tokens-per-sample": "64",
    "masking": "exact",
    "mask-rate": "0.15",
}


def masked_loss(data: Path, run: Path) -> float:
    """The loss of the run's last checkpoint on the validation split."""
    flags = [word for name, value in MASKS.items() for word in (f"--task.{name}", value)]
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        line = [str(data), "--path", str(run / "checkpoint_last"), "--precision", "fp32", *flags]
        if validate([*line, "--results-path", str(results)]):
            sys.exit(f"{run}: toolkit-validate failed.")
        [splits] = json.loads(results.read_text("utf-8")).values()
    return float(splits["valid"]["loss"])


def row(data: Path, run: Path) -> list[str]:
    """The cells of a run that follows the rules; ends the program otherwise."""
    starts, result = read_starts(run), json.loads((run / "result.json").read_text("utf-8"))
    if len(starts) != 1:
        sys.exit(f"{run} must be trained in one start, but has {len(starts)}.")
    if [it["fingerprint"] for it in starts[0]["data"]] != [TEXT]:
        sys.exit(f"{run} must be trained on the data folder of the rules alone, but was not.")
    if origin := starts[0]["resumed_from"] or result["config"]["checkpoint"]["finetune_from"]:
        sys.exit(f"{run} must start from random weights, but started from {origin}.")
    loss = masked_loss(data, run)
    if loss > TARGET:
        sys.exit(f"{run} must reach a loss of {TARGET}, but its last checkpoint has {loss:.4f}.")
    machine = starts[0]["gpus"] or [f"{starts[0]['cpu']}, {starts[0]['device']}"]
    counts = [f"{result[it]:,}" for it in ("updates", "words", "parameters")]
    return [run.name, f"{loss:.4f}", f"{result['seconds']:.0f}", *counts, "; ".join(machine)]


def main(argv: list[str]) -> None:
    if len(argv) < 2:
        sys.exit(__doc__)
    data, *runs = map(Path, argv)
    if open_folder(data).digest != TEXT:
        sys.exit(f"{data} must be the data folder of the rules, but has another digest.")
    rows = [row(data, run) for run in runs]
    print("| run | loss | seconds | updates | words | parameters | machine |")
    print("|---|---|---|---|---|---|---|")
    print("".join(f"| {' | '.join(cells)} |\n" for cells in rows), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
