"""toolkit-validate: metrics of checkpoints on splits, as a table and as JSON."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from toolkit.checkpoints.compatibility import check_data_matches_checkpoint
from toolkit.checkpoints.load import find_checkpoint, load_checkpoint, read_config
from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import CRITERIA
from toolkit.config.commands.validate import ValidateConfig
from toolkit.config.sections import DataConfig
from toolkit.data.storage.corpora import Corpora
from toolkit.distributed import World, launch
from toolkit.optim.precision import Precision, resolve_precision
from toolkit.reporting.json_output import Output
from toolkit.reporting.progress import Progress
from toolkit.tasks.predictions import PredictionCollector
from toolkit.tasks.task import Learner
from toolkit.training.data import open_split, resolve_task, split_names
from toolkit.training.evaluation import evaluate_model
from toolkit.training.step import Metrics
from toolkit.training.summary import print_metrics


def evaluate_checkpoints(config: ValidateConfig) -> dict[str, dict[str, Metrics]]:
    """Checkpoint -> split -> metrics; every example is evaluated exactly once."""
    with launch(config.device) as world, Output(config.json if world.is_main else None) as output:
        corpora = Corpora.open(*config.dirs)
        found: dict[str, dict[str, Metrics]] = {}
        answers: PredictionCollector[Any] | None = None
        for path in config.path:
            found[path], answers = evaluate_checkpoint(path, corpora, config, world, output)
        if world.is_main:
            report_metrics(found, config, output)
            if config.predictions and answers:  # last: figures outlive a file that cannot be
                answers.write(Path(config.predictions))
                print_line(f"wrote {config.predictions}", output)
        return found


def evaluate_checkpoint(
    path: str, corpora: Corpora, config: ValidateConfig, world: World, output: Output
) -> tuple[dict[str, Metrics], PredictionCollector[Any] | None]:
    """Metrics of a checkpoint on every split, and its predictions on the last one."""
    checkpoint = find_checkpoint(Path(path))
    run, _ = read_config(checkpoint)
    learner = load_checkpoint(checkpoint, weights=config.weights).to(world.device)
    check_data_matches_checkpoint(corpora.tokenizer, str(corpora.path), learner.tokenizer, path)
    data = DataConfig(
        max_tokens_valid=config.max_tokens,
        batch_size_valid=config.batch_size,
        num_workers=config.num_workers,
    )
    found, answers = {}, None
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
        examples, answers = len(split.examples.lengths), learner.task.collector(split.examples)
        check_predictions_supported(answers, config, learner)
        if world.is_main and (remark := split.examples.remark):
            print_line(f"{path} {name}: {remark}", output)
        mine = -(-examples // world.size)  # what the first rank is told of, nearly
        work = Progress(f"{name} of {path}", mine, "examples", quiet=not world.is_main)
        with closing(split.loader), work:
            found[name] = evaluate_model(
                learner,
                CRITERIA[run.criterion.name].factory(run.criterion.config),
                split.loader,
                examples=examples,
                world=world,
                precision=Precision(
                    resolve_precision(config.precision, world.device), world.device
                ),
                on_progress=work.advance,
                collector=answers,
            )
        if answers and world.is_main:
            report_details(answers, {"checkpoint": path, "subset": name}, config, output)
    return found, answers


def report_details(
    answers: PredictionCollector[Any], of: dict[str, str], config: ValidateConfig, output: Output
) -> None:
    """Report per-class and per-item results of a task."""
    for event, values in answers.events():
        output.write(event, {**of, **values})
    tables = answers.tables()
    if tables and len(config.path) * len(split_names(config.valid_subset)) > 1:
        print_line(" ".join(of.values()), output)
    for table in tables:
        table.print(output.console)


def print_line(line: str, output: Output) -> None:
    output.console.print(line, highlight=False, markup=False, soft_wrap=True)


def check_predictions_supported(
    answers: PredictionCollector[Any] | None, config: ValidateConfig, learner: Learner
) -> None:
    if config.predictions and answers is None:
        raise ToolkitError(
            f"--predictions requires a task that writes predictions, such as pos_tagging, but the "
            f"checkpoint's task is {type(learner.task).__name__}."
        )


def report_metrics(
    found: dict[str, dict[str, Metrics]], config: ValidateConfig, output: Output
) -> None:
    """Print the table of metrics and write the JSON results."""
    for path, subsets in found.items():
        for subset, figures in subsets.items():
            output.write("valid", {"checkpoint": path, "subset": subset, **figures})
    rows = {
        f"{path} {subset}": figures
        for path, subsets in found.items()
        for subset, figures in subsets.items()
    }
    print_metrics({"checkpoint and split": rows}, output.console)
    if config.results_path:
        text = json_files.dumps(found, indent=1) + "\n"
        try:
            Path(config.results_path).write_text(text, "utf-8")
        except OSError as error:
            raise ToolkitError(
                f"--results-path must be writable, but {config.results_path} is not: "
                f"{error.strerror}. Choose another file."
            ) from None
