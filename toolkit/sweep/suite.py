"""toolkit-train --suite: fine-tune on each task of a suite, and compare with constant answers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np

from toolkit.checkpoints.load import find_checkpoint
from toolkit.common.errors import ToolkitError
from toolkit.common.files import write_output
from toolkit.common.json_files import FileName, JsonObject, convert, name_file, sha256, sha256_file
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.config.commands.train import SUITE_TRAIN, TRAIN, SweepConfig
from toolkit.config.load import Resolved, resolve, to_run_config
from toolkit.config.sections import ComponentConfig
from toolkit.config.values import ALTERNATIVES, flatten_sections
from toolkit.config.yaml_files import read_suite
from toolkit.data.formats.rows.format import RowsConfig
from toolkit.data.preprocess import preprocess
from toolkit.data.storage.meta import META_FILE, read_meta
from toolkit.data.text_files import COMPRESSION_SUFFIXES
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.metrics.classification import CLASSIFICATION_METRICS
from toolkit.metrics.seeds import summarize
from toolkit.reporting.runs import RESULT_FILE
from toolkit.reporting.tables import Table
from toolkit.sweep.jobs import SweepJob, SweepProgress, allocate_slots, run_all
from toolkit.sweep.ranking import MetricSource, grid_points, group_by_configuration
from toolkit.sweep.sweep import SweepRun, plan_runs, train_runs
from toolkit.tasks.task import max_input_length


class FineTuning(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task of a suite."""

    text_columns: str
    """As --text-columns of --format rows."""
    label_column: str = "label"
    label_type: Literal["class", "number", "option"] = "class"
    train: JsonObject = {}
    """Sections of options of toolkit-train, as in a recipe."""


class Suite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file of a suite of fine-tuning."""

    seeds: list[Annotated[str, msgspec.Meta(pattern=r"^\d{1,9}$")]]
    train: JsonObject = {}
    """Sections of options for all tasks."""
    tasks: dict[FileName, FineTuning]


Trained = tuple[Path, list[SweepRun]]
"""The data folder of a task, and its runs."""


def run_suite(argv: Sequence[str], c: SweepConfig) -> int:
    """Preprocess and train what is not finished, print and write the table.

    Returns 0, 1 if a run failed, 128 + n after signal n.
    """
    resolved = resolve(argv, SUITE_TRAIN)
    config, source = to_run_config(resolved.build_configs()), c.suite
    if not config.checkpoint.finetune_from or len(config.data.dirs) != 1:
        raise ToolkitError(
            "--suite requires --finetune-from, the pre-trained checkpoint, and one folder with the "
            "files of its tasks."
        )
    with name_file(Path(source), "A suite of fine-tuning has `seeds`, `train` and `tasks`."):
        suite = convert(read_suite(source, tunes=True), Suite)
    c = replace(c, seeds=c.seeds or [int(seed) for seed in suite.seeds])
    base, limit = Path(config.checkpoint.save_dir), max_input_length(config.arch.config)
    base.mkdir(parents=True, exist_ok=True)
    folder, tokenizer = (Path(it) for it in (config.data.dirs[0], config.checkpoint.finetune_from))
    trained: dict[str, Trained | None] = dict.fromkeys(suite.tasks)
    for name, task in suite.tasks.items():
        try:
            data = prepare_data(name, task, folder, tokenizer, base)
        except ToolkitError as error:
            print(f"{name} is left out: {error}")
            continue
        more = {"data.dirs": str(data), **choose_options(suite, task, resolved, limit)}
        trained[name] = data, plan_runs(argv, resolved, grid_points(c), base / name, more)
    runs = [run for it in trained.values() if it for run in it[1]]
    if not runs:
        raise ToolkitError(f"no task of --suite {source} could be trained. See the lines above.")
    code = train_runs(runs, c, base)
    if code is not None:
        return code
    write_predictions(trained.values(), base)
    return report(trained, c, base)


def prepare_data(name: str, task: FineTuning, folder: Path, checkpoint: Path, base: Path) -> Path:
    """The data folder of a task, named after what it depends on; it is written once."""
    train, valid = (find_file(folder, f"{name}.{split}.jsonl") for split in ("train", "valid"))
    tokenizer = find_checkpoint(checkpoint)
    rows = RowsConfig(
        text_columns=task.text_columns, label_column=task.label_column, label_type=task.label_type
    )
    facts = [*map(sha256_file, (train, valid)), Tokenizer.load(tokenizer).fingerprint, str(rows)]
    data = base / "data" / f"{name}-{sha256(' '.join(facts))[:8]}"
    if not (data / META_FILE).exists():
        preprocess(
            PreprocessConfig(
                trainpref=str(train),
                validpref=str(valid),
                destdir=str(data),
                tokenizer_from=str(tokenizer),
                format=ComponentConfig("rows", rows),
            )
        )
    return data


def find_file(folder: Path, name: str) -> Path:
    """The only file of this name, which may be compressed."""
    found = [path for it in COMPRESSION_SUFFIXES if (path := folder / (name + it)).is_file()]
    if len(found) > 1:
        names = " and ".join(path.name for path in found)
        raise ToolkitError(f"{folder} must hold one {name}, but holds {names}. Remove one.")
    if not found:
        raise ToolkitError(f"No such file: {folder / name}.")
    return found[0]


def choose_options(
    suite: Suite, task: FineTuning, resolved: Resolved, limit: int | None
) -> dict[str, str]:
    """The options of a task that the command line does not replace; texts fit into the model."""
    options = flatten_sections(suite.train, TRAIN, "--suite")
    options |= flatten_sections(task.train, TRAIN, "--suite")
    given = {path for path, it in resolved.values.items() if it.origin != "default"}
    given |= {path for group in ALTERNATIVES if given & {*group} for path in group}
    texts = {path: str(it.value) for path, it in options.items() if path not in given}
    tokens = texts.get(LENGTH, "")
    if limit and tokens.isdecimal() and int(tokens) > limit:
        texts[LENGTH] = str(limit)
    return texts


LENGTH = "task.tokens_per_sample"


def write_predictions(trained: Iterable[Trained | None], base: Path) -> None:
    """Write the predicted classes or options of the first run of each task next to its result."""
    jobs = []
    for data, [run, *_] in filter(None, trained):
        file, result = run.folder / PREDICTIONS, run.folder / RESULT_FILE
        is_known = file.exists() and file.stat().st_mtime >= result.stat().st_mtime
        if run.outcome and not is_known:
            command = [sys.executable, "-m", "toolkit.cli.validate", str(data)]
            command += [f"--user-dir={folder}" for folder in run.user_dirs]
            command += ["--path", str(run.folder), "--predictions", str(file)]
            command += ["--device", run.config.training.device]
            name = f"predictions of {run.folder.relative_to(base).as_posix()}"
            jobs.append(SweepJob(name=name, command=command, folder=run.folder))
    with SweepProgress(jobs, total=len(jobs)) as progress:
        run_all(jobs, allocate_slots(1, "cpu"), progress)


PREDICTIONS = "predictions.tsv"


def report(trained: Mapping[str, Trained | None], c: SweepConfig, base: Path) -> int:
    """Print and write the table of all tasks. Returns 1 if a run has no result."""
    rows, by_seed, failed = list[JsonObject](), list[dict[int | None, float]](), 0
    for name, it in trained.items():
        rows.append({"task": name})
        if it is None:
            continue
        data, runs = it
        found = [outcome for run in runs if (outcome := run.outcome)]
        failed += len(runs) - len(found)
        metric = runs[0].config.training.best_metric
        rows[-1] |= {"metric": metric, **describe_data(data, metric)}
        if found:
            source = MetricSource(subset="valid", metric=metric, validation="best")
            [row] = group_by_configuration(found, source)
            by_seed.append(dict(row.by_seed))
            file = runs[0].folder.relative_to(base) / PREDICTIONS
            rows[-1] |= asdict(row.summary)
            rows[-1] |= {"seeds": row.by_seed, "predictions": file.as_posix()}
    if not by_seed:
        raise ToolkitError(f"all runs of the suite failed. See the logs, {base}/*/*/log.txt.")
    seeds = [seed for seed in by_seed[0] if all(seed in it for it in by_seed)]
    if len(by_seed) > 1 and seeds:
        means = [sum(it[seed] for it in by_seed) / len(by_seed) for seed in seeds]
        rows.append({"task": f"mean of {len(by_seed)}", **asdict(summarize(means))})
    table = Table(
        columns=COLUMNS,
        rows=[[row.get(name) for name in COLUMNS] for row in rows],
        shared_precision=("constant", "mean", "deviation"),
        caption=f"{c.suite}, best epoch of each run",
        note="constant: the best score of an answer that is always the same",
    )
    table.print()
    write_output(base / "suite.md", table.markdown())
    write_output(base / "suite.json", table.json(tasks=rows))
    return 1 if failed else 0


COLUMNS = ("task", "metric", "examples", "constant", "mean", "deviation", "n")


def describe_data(data: Path, metric: str) -> dict[str, float]:
    """Number of rows for validation, and the best score of a constant answer."""
    counts = read_meta(data).splits["valid"].get("labels", {})
    labels = np.repeat(np.arange(len(counts)), [counts[name] for name in sorted(counts)])
    scorer = CLASSIFICATION_METRICS.get(metric)
    if not len(labels) or not scorer:
        return {}
    scores = [scorer(labels, np.full(len(labels), it)) for it in range(len(counts))]
    return {"examples": len(labels), "constant": max(scores)}
