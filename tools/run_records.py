"""Records of finished runs: one line per run in `runs.jsonl`, validations in `curves.jsonl.xz`."""

from __future__ import annotations

import json
import lzma
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolkit.config.serialize import flatten

RUNS, CURVES = "runs.jsonl", "curves.jsonl.xz"
IRRELEVANT = (
    "training.seed",
    "checkpoint.",
    "logging.",
    "data.dirs",
    "data.folders",
    "data.num_workers",
)
NOTED = ("checkpoint.finetune_from",)


@dataclass(frozen=True)
class Run:
    name: str
    """Experiment and path of the save directory: `ud/English-GUM/add/seed=0`."""
    record: dict[str, Any]
    """The line of runs.jsonl."""
    validations: list[dict[str, Any]] = field(default_factory=list)
    """In the order in which they were logged: update, epoch, subset and metrics."""
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def arch(self) -> str:
        return self.record["config"]["arch.name"]

    def last(self, metric: str, subset: str = "valid") -> float:
        """A metric after the last update."""
        return float(self.record["valid"][subset][metric])

    def best(self, metric: str, subset: str = "valid") -> float:
        """A metric at the update of the best validation; NaN if it was not defined there."""
        return float(self.record["best"]["valid"][subset].get(metric, math.nan))

    def at(self, update: int, metric: str, subset: str = "valid") -> float:
        """A metric after a given update."""
        matching = [v for v in self.validations if (v["update"], v["subset"]) == (update, subset)]
        return float(matching[-1][metric])


def load_runs(path: Path, name: str = "") -> list[Run]:
    """Runs of an example's folder, of a runs.jsonl file, or of a folder of save directories."""
    if path.is_dir() and not (path / RUNS).exists():
        return collect_runs(path, name)
    file = path / RUNS if path.is_dir() else path
    curves: dict[str, dict[str, Any]] = {}
    if (packed := file.with_name(CURVES)).exists():
        curves = {it["run"]: it for it in read_lines(packed)}
    runs = []
    for record in read_lines(file):
        curve = curves.get(record["run"], {})
        validations, config = curve.get("validations", []), curve.get("config", {})
        runs.append(Run(record["run"], record, validations, config))
    return runs


def read_lines(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode("utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def collect_runs(folder: Path, name: str = "") -> list[Run]:
    """Finished runs in a folder of save directories; `name` precedes their paths."""
    finished = []
    for path in sorted(folder.glob("**/result.json")):
        result = json.loads(path.read_text("utf-8"))
        if not result["signal"]:
            relative = path.parent.relative_to(folder).as_posix()
            finished.append((f"{name}/{relative}" if name else relative, path.parent, result))
    configs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for _, _, result in finished:
        configs[result["config"]["task"]["name"]].append(flatten(result["config"]))
    varying = {task: varying_options(its) for task, its in configs.items()}
    return [read_run(*it, varying[it[2]["config"]["task"]["name"]]) for it in finished]


def read_run(name: str, folder: Path, result: dict[str, Any], varying: list[str]) -> Run:
    events = read_lines(folder / "metrics.jsonl")
    options = flatten(result["config"])
    trained = [e for e in events if e["event"] == "train"]
    speeds = [e["tokens_per_second"] for e in trained if "tokens_per_second" in e]
    losses = {k: v for k, v in result["train"].items() if k.endswith("loss")}
    record = {
        "run": name,
        "seed": options["training.seed"],
        "config": {key: options[key] for key in varying if key in options},
        "config_digest": result["config_digest"],
        "updates": result["updates"],
        "epochs": result["epochs"],
        "seconds": result["seconds"],
        "train": {
            **losses,
            "tokens_per_second": statistics.mean(speeds) if speeds else None,
            "peak_memory_gib": result["train"].get("peak_memory_gib"),
        },
        "valid": result["valid"],
        "best": result["best"],
    }
    dropped = ("event", "seconds")
    validations = [
        {k: v for k, v in e.items() if k not in dropped} for e in events if e["event"] == "valid"
    ]
    return Run(name, record, validations, without_folders(result["config"]))


def varying_options(configs: Sequence[dict[str, Any]]) -> list[str]:
    """Options in which runs of one task differ, without those that the architecture implies."""
    options = ["arch.name", "task.name"]
    for key in dict.fromkeys(key for config in configs for key in config):
        pairs = {
            (config["arch.name"], json.dumps(config[key])) for config in configs if key in config
        }
        implied = len(pairs) == len({arch for arch, _ in pairs})
        differs = len({value for _, value in pairs}) > 1
        if differs and not implied and (key in NOTED or not key.startswith(IRRELEVANT)):
            options.append(key)
    return list(dict.fromkeys(options))


def without_folders(value: Any) -> Any:
    """Cut absolute paths to their last part."""
    if isinstance(value, dict):
        return {key: without_folders(it) for key, it in value.items()}
    if isinstance(value, list):
        return [without_folders(it) for it in value]
    return Path(value).name if isinstance(value, str) and value.startswith("/") else value


def write_runs(runs: Iterable[Run], file: Path) -> None:
    """Write runs.jsonl and the curves next to it, sorted by name."""
    ordered = sorted(runs, key=lambda run: run.name)
    lines = (json.dumps(run.record, ensure_ascii=False) + "\n" for run in ordered)
    file.write_text("".join(lines), "utf-8")
    curves = [
        {"run": run.name, "config": run.config, "validations": run.validations} for run in ordered
    ]
    text = "".join(json.dumps(curve, ensure_ascii=False) + "\n" for curve in curves)
    file.with_name(CURVES).write_bytes(lzma.compress(text.encode("utf-8"), preset=9))


def group(runs: Iterable[Run], key: Callable[[Run], Any]) -> dict[Any, list[Run]]:
    groups: dict[Any, list[Run]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return dict(groups)


def select_experiment(runs: Iterable[Run], name: str) -> list[Run]:
    return [run for run in runs if run.name.startswith(f"{name}/")]
