"""Add finished runs to an example's records, or unpack records into save directories.

    python tools/collect_runs.py FOLDER --into examples/x/runs.jsonl [--name EXPERIMENT]
    python tools/collect_runs.py --unpack examples/x/runs.jsonl FOLDER

FOLDER holds save directories of toolkit-train at any depth. Each finished run becomes a line of
runs.jsonl, named EXPERIMENT/PATH, and its validations go to curves.jsonl.xz in the same folder; a
run of the same name is replaced. --results FILE adds what `toolkit-validate --results-path FILE`
wrote about these runs. Unpacking writes metrics.jsonl (validations only) and result.json of every
run, as `toolkit-plot curve` reads them. Sweeps retrain such runs if options were renamed since.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from run_records import Run, collect_runs, load_runs, write_runs

from toolkit.common.system import processor_name

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="save directories")
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--into", type=Path, metavar="FILE", help="runs.jsonl to add to")
    target.add_argument("--unpack", type=Path, metavar="FILE", help="runs.jsonl to unpack")
    parser.add_argument("--name", default="", help="name of the experiment, before the runs' paths")
    parser.add_argument("--results", type=Path, help="test metrics from toolkit-validate")
    parser.add_argument("--machine", default=describe_machine(), help="default: this one")
    parser.add_argument("--commit", default=current_commit(), help="default: HEAD")
    args = parser.parse_args()
    if args.unpack:
        unpack(load_runs(args.unpack), args.folder)
        return
    added = collect_runs(args.folder, args.name)
    if not added:
        parser.error(f"{args.folder} has no finished runs.")
    results = json.loads(args.results.read_text("utf-8")) if args.results else {}
    for run in added:
        path = args.folder / run.name.removeprefix(f"{args.name}/")
        add_test_metrics(run, path.as_posix(), results)
        run.record.update(machine=args.machine, commit=args.commit)
    earlier = load_runs(args.into) if args.into.exists() else []
    write_runs({run.name: run for run in [*earlier, *added]}.values(), args.into)
    print(f"{args.into}: {len(added)} runs added or replaced")


def describe_machine() -> str:
    """The processor's model and the number of cores."""
    return f"{processor_name()}, {os.cpu_count()} cores"


def current_commit() -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def add_test_metrics(run: Run, path: str, results: dict[str, Any]) -> None:
    """Add the results of the run, whose keys are its path or the last parts of it."""
    for name, metrics in results.items():
        if path == name or path.endswith(f"/{name}"):
            run.record["results"] = metrics


def unpack(runs: list[Run], folder: Path) -> None:
    for run in runs:
        target = folder / run.name
        target.mkdir(parents=True, exist_ok=True)
        events = [{"event": "valid", **it} for it in run.validations]
        text = "".join(json.dumps(event) + "\n" for event in events)
        (target / "metrics.jsonl").write_text(text, "utf-8")
        known = ("updates", "epochs", "seconds", "train", "valid", "best", "config_digest")
        result = {key: run.record[key] for key in known} | {"signal": None, "config": run.config}
        (target / "result.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
