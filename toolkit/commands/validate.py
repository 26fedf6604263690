"""toolkit-validate: metrics of checkpoints on splits, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from toolkit.checkpoints.compatibility import check_data_matches_checkpoint
from toolkit.checkpoints.load import find_checkpoint, read_config
from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import CRITERIA, TASKS
from toolkit.config.commands.validate import ValidateConfig
from toolkit.config.sections import DataConfig
from toolkit.data.storage.corpora import Corpora
from toolkit.distributed import World, launch
from toolkit.optim.precision import Precision, resolve_precision
from toolkit.reporting.json_output import Output
from toolkit.reporting.progress import Progress
from toolkit.tasks.learner import Learner
from toolkit.tasks.load import load_checkpoint
from toolkit.tasks.predictions import PredictionCollector
from toolkit.training.data import open_split, resolve_task, split_names
from toolkit.training.evaluation import evaluate_model
from toolkit.training.step import Metrics
from toolkit.training.summary import print_metrics


def evaluate_checkpoints(config: ValidateConfig) -> dict[str, dict[str, Metrics]]:
    """Checkpoint -> split -> metrics; every example is evaluated exactly once."""
    with launch(config.device) as world, Output(config.json if world.is_main else None) as output:
        corpora = Corpora.open(*config.dirs)
        results: dict[str, dict[str, Metrics]] = {}
        collector: PredictionCollector[Any] | None = None
        for path in config.path:
            results[path], collector = evaluate_checkpoint(path, corpora, config, world, output)
        if world.is_main:
            report_metrics(results, config, output)
            if config.predictions and collector:  # last: metrics outlive an unwritable file
                collector.write(Path(config.predictions))
                output.print_line(f"wrote {config.predictions}")
        return results


def evaluate_checkpoint(
    path: str, corpora: Corpora, config: ValidateConfig, world: World, output: Output
) -> tuple[dict[str, Metrics], PredictionCollector[Any] | None]:
    """Metrics of a checkpoint on every split, and its predictions on the last one."""
    checkpoint = find_checkpoint(Path(path))
    run, _ = read_config(checkpoint)
    learner = load_checkpoint(checkpoint, weights=config.weights).to(world.device)
    check_data_matches_checkpoint(corpora.tokenizer, str(corpora.path), learner.tokenizer, path)
    criterion = CRITERIA[run.criterion.name].factory(run.criterion.config)
    precision = Precision(resolve_precision(config.precision, world.device), world.device)
    data = DataConfig(
        max_tokens_valid=config.max_tokens,
        batch_size_valid=config.batch_size,
        num_workers=config.num_workers,
    )
    metrics, collector = {}, None
    for name in split_names(config.valid_subset):
        split = open_split(
            name,
            corpora.with_split(name),
            resolve_task(run.task, run.arch),
            data,
            world=world,
            seed=run.data.evaluation_seed,
            training=False,
        )
        examples, collector = len(split.examples.lengths), learner.task.collector(split.examples)
        check_predictions_supported(collector, config, learner)
        if world.is_main and (remark := split.examples.remark):
            output.print_line(f"{path} {name}: {remark}")
        total = -(-examples // world.size)  # approximately what the main rank reports
        progress = Progress(f"{name} of {path}", total, "examples", quiet=not world.is_main)
        with closing(split.loader), progress:
            metrics[name] = evaluate_model(
                learner,
                criterion,
                split.loader,
                examples=examples,
                world=world,
                precision=precision,
                on_progress=progress.advance,
                collector=collector,
            )
        if collector and world.is_main:
            report_details(collector, {"checkpoint": path, "subset": name}, config, output)
    return metrics, collector


def report_details(
    collector: PredictionCollector[Any],
    source: Mapping[str, str],
    config: ValidateConfig,
    output: Output,
) -> None:
    """Report per-class and per-item results of a task on a checkpoint's split, the source."""
    for event, values in collector.events():
        output.write(event, {**source, **values})
    tables = collector.tables()
    if tables and len(config.path) * len(split_names(config.valid_subset)) > 1:
        output.print_line(" ".join(source.values()))
    for table in tables:
        table.print(output.console)


def check_predictions_supported(
    collector: PredictionCollector[Any] | None, config: ValidateConfig, learner: Learner
) -> None:
    if config.predictions and collector is None:
        raise ToolkitError(
            f"--predictions requires a task that writes predictions, such as pos_tagging, but the "
            f"checkpoint's task is {TASKS.find_name(type(learner.task))}."
        )


def report_metrics(
    results: Mapping[str, Mapping[str, Metrics]], config: ValidateConfig, output: Output
) -> None:
    """Print the table of metrics and write the JSON results."""
    rows: dict[str, Metrics] = {}
    for path, subsets in results.items():
        for subset, metrics in subsets.items():
            output.write("valid", {"checkpoint": path, "subset": subset, **metrics})
            rows[f"{path} {subset}"] = metrics
    print_metrics({"checkpoint and split": rows}, output.console)
    if config.results_path:
        try:
            Path(config.results_path).write_text(
                json_files.dumps(results, indent=1) + "\n", "utf-8"
            )
        except OSError as error:
            raise ToolkitError(
                f"--results-path must be writable, but {config.results_path} is not: "
                f"{error.strerror}. Choose another file."
            ) from None
