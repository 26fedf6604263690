"""toolkit-validate: metrics of checkpoints on splits, as a table and as JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.checkpoints.load import check_data_matches_checkpoint, find_checkpoint, read_config
from toolkit.checkpoints.save_folder import SaveFolder, read_manifest
from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.common.files import check_output, open_output, read_bytes, write_output
from toolkit.common.json_files import JsonObject, sha256
from toolkit.common.registry import TASKS
from toolkit.config import names
from toolkit.config.command import MANIFEST
from toolkit.config.commands.checkpoints import CompletionsConfig, ValidateConfig
from toolkit.config.commands.generate import AcquisitionConfig
from toolkit.config.declared import list_options
from toolkit.config.sections import ComponentConfig, DataConfig
from toolkit.config.values import OptionValue, Overrides, build_config
from toolkit.data.storage.data_folder import Corpora
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.distributed import World, launch
from toolkit.optim.update import Precision, resolve_precision
from toolkit.reporting.console import Output, Progress
from toolkit.reporting.runs import list_measures, main_value, read_log
from toolkit.reporting.tables import Cell, Table
from toolkit.tasks.build import load_with_task
from toolkit.tasks.examples import SHAPE_MULTIPLE, SplitSource
from toolkit.tasks.learner import Learner
from toolkit.tasks.predictions import Results
from toolkit.tasks.task import check_examples, wrong_training_error
from toolkit.tasks.translation import Translation
from toolkit.training.data import LoadedSplit, open_split, resolve_task, split_names
from toolkit.training.evaluation import evaluate_model
from toolkit.training.result import print_metrics
from toolkit.training.step import Metrics


class Evaluation(NamedTuple):
    """A checkpoint, and the task that it is evaluated with."""

    path: str
    options: Mapping[str, object]
    """Path of each option of the task that differs from training -> its value."""
    task: ComponentConfig

    @property
    def name(self) -> str:
        """The checkpoint with the options that differ from training."""
        return " ".join([self.path, *(f"{key}={value}" for key, value in self.options.items())])

    @property
    def source(self) -> dict[str, object]:
        """Checkpoint and options, for JSON."""
        return {"checkpoint": self.path, **self.options}


def evaluate_checkpoints(config: ValidateConfig) -> dict[str, dict[str, Metrics]]:
    """Checkpoint (with overridden options) -> split -> metrics; every example counts once."""
    with launch(config.device) as world, Output(config.json if world.is_main else None) as output:
        if config.results_path is not None:  # fail before the work
            check_output(config.results_path)
        if config.predictions is not None:
            check_output(config.predictions, allow_folder=True)
        results: list[tuple[Evaluation, dict[str, Metrics]]] = []
        predicted: Results[Any, Any] | None = None
        known = KnownResults(config, world)
        for path in list_checkpoints(config):
            run, _ = read_config(find_checkpoint(Path(path)))
            for each in list_evaluations(path, run.task, config.task):
                metrics, predicted = look_up_or_evaluate(each, config, known, world, output)
                results.append((each, metrics))
        if world.is_main:
            report_metrics(results, config, output)
            if config.predictions and predicted:  # last: metrics outlive an unwritable file
                predicted.write(Path(config.predictions))
                output.print_line(f"wrote {config.predictions}")
        return {each.name: metrics for each, metrics in results}


def look_up_or_evaluate(
    each: Evaluation, config: ValidateConfig, known: KnownResults, world: World, output: Output
) -> tuple[dict[str, Metrics], Results[Any, Any] | None]:
    """What `evaluate_checkpoint` returns; with --all-checkpoints known metrics, with the clock."""
    if not config.all_checkpoints:
        return evaluate_checkpoint(each, config, world, output)
    languages = Tokenizer.load(each.path).language_pair
    data = Corpora.open(*config.dirs, languages=languages).all.fingerprint
    head, subsets = known.describe(each.path, {"data": data}), split_names(config.valid_subset)
    sources = {name: {**each.source, "subset": name} for name in subsets}
    found = [known.find(source, head) for source in sources.values()]
    records = [record for record in found if record]
    if len(records) < len(subsets):
        metrics, _ = evaluate_checkpoint(each, config, world, output)
        records = [{**sources[name], **head, **values} for name, values in metrics.items()]
        for record in records:
            known.add(record)
    hidden = {*each.source, *(key for key in head if head[key] is None), "subset", "evaluation"}
    return {it["subset"]: {k: v for k, v in it.items() if k not in hidden} for it in records}, None


def evaluate_checkpoint(
    evaluation: Evaluation, config: ValidateConfig, world: World, output: Output
) -> tuple[dict[str, Metrics], Results[Any, Any] | None]:
    """Metrics of a checkpoint on every split, and its predictions on the last one."""
    path = evaluation.path
    learner = load_with_task(Path(path), evaluation.task, weights=config.weights).to(world.device)
    corpora = Corpora.open(*config.dirs, languages=learner.tokenizer.language_pair)
    data = corpora.all.tokenizer
    check_data_matches_checkpoint(data, str(corpora.path), learner.tokenizer, path)
    precision = Precision(resolve_precision(config.precision, world.device), world.device)
    metrics, predicted = {}, None
    for name in split_names(config.valid_subset):
        split = open_subset(name, corpora, learner, config, world)
        examples, predicted = len(split.examples.lengths), learner.task.results(split.examples)
        if config.predictions and predicted is None:
            if isinstance(learner.task, Translation):
                raise ToolkitError(
                    "--predictions needs the translations, which --task.validation-beam 0 leaves "
                    "out. Add --task.validation-beam 1."
                )
            given = TASKS.find_name(type(learner.task))
            raise wrong_training_error("--predictions", "a task such as pos_tagging", given)
        if world.is_main and (remark := split.examples.remark):
            output.print_line(f"{evaluation.name} {name}: {remark}")
        total = -(-examples // world.size)  # approximately what the main rank reports
        progress = Progress(
            f"{name} of {evaluation.name}", total, "examples", quiet=not world.is_main
        )
        with closing(split.loader), progress:
            metrics[name] = evaluate_model(
                learner,
                learner.criterion,
                split.loader,
                examples=examples,
                world=world,
                precision=precision,
                on_progress=progress.advance,
                results=predicted,
            )
        if predicted and world.is_main:
            report_details(predicted, evaluation, name, config, output)
    return metrics, predicted


def open_subset(
    name: str, corpora: Corpora, learner: Learner, config: ValidateConfig, world: World
) -> LoadedSplit:
    """A split, read as the learner's task with the seed of its run reads it."""
    run = learner.require_origin().to_run()
    data = DataConfig(
        max_tokens_valid=config.max_tokens,
        batch_size_valid=config.batch_size,
        num_workers=config.num_workers,
    )
    folder, seed = corpora.with_split(name), run.data.evaluation_seed
    source = SplitSource(folder, name, seed, row_multiple=SHAPE_MULTIPLE)
    split = open_split(source, resolve_task(run.task, run.arch), data, world=world)
    check_examples(split.examples, learner.encoder, split.name)
    return split


def report_details(
    predicted: Results[Any, Any],
    evaluation: Evaluation,
    subset: str,
    config: ValidateConfig,
    output: Output,
) -> None:
    """Report per-class and per-item results of a task on a checkpoint's split."""
    for event, values in predicted.events():
        output.write(event, {**evaluation.source, "subset": subset, **values})
    tables = predicted.tables()
    if tables and not config.is_single:
        output.print_line(f"{evaluation.name} {subset}")
    for table in tables:
        table.print(output.console)


def report_metrics(
    results: Sequence[tuple[Evaluation, Mapping[str, Metrics]]],
    config: ValidateConfig,
    output: Output,
) -> None:
    """Print the table of metrics and write the JSON results."""
    rows: dict[str, Metrics] = {}
    for evaluation, subsets in results:
        for subset, metrics in subsets.items():
            output.write("valid", {**evaluation.source, "subset": subset, **metrics})
            rows[f"{evaluation.name} {subset}"] = metrics
    print_metrics({"checkpoint and split": rows}, output.console)
    if config.results_path and not config.all_checkpoints:
        named = {evaluation.name: metrics for evaluation, metrics in results}
        write_output(config.results_path, json_files.dumps(named, indent=1) + "\n")


def list_evaluations(
    path: str, task: ComponentConfig, overrides: Overrides
) -> Iterator[Evaluation]:
    """One for each combination of the values of overridden options."""
    known = {option.path: option for option in list_options("task", task.config)}
    options = [names.find_option(f"task.{name}", known) for name in overrides.values]
    for option in options:
        if option.of_model:
            raise ToolkitError(
                f"{option.flag} cannot be changed after training: it is part of the model of "
                f"--task {task.name}. Train a model with the other value."
            )
    for combination in product(*overrides.values.values()):
        given = {
            option.path: OptionValue(text, option.flag)
            for option, text in zip(options, combination, strict=True)
        }
        config = build_config(task.config, options, given)
        values = {option.path: getattr(config, option.name) for option in options}
        yield Evaluation(path, values, ComponentConfig(task.name, config))


def list_checkpoints(c: ValidateConfig | CompletionsConfig | AcquisitionConfig) -> list[str]:
    """The paths to evaluate: with --all-checkpoints those of each save folder, oldest first."""
    paths = []
    for path in c.path:
        is_run = c.all_checkpoints and not (Path(path) / MANIFEST).exists()
        found = SaveFolder(Path(path)).checkpoints() if is_run else []
        paths += [str(it) for it in reversed(found)] or [path]
    return paths


class KnownResults:
    """The results in the file of --results-path, of checkpoints that are not evaluated again.

    What a checkpoint is asked decides its results: the data, and the options that they depend on.
    """

    def __init__(
        self, c: ValidateConfig | CompletionsConfig | AcquisitionConfig, world: World
    ) -> None:
        self.file, self.is_active = c.results_path or "", c.all_checkpoints
        self.is_main = world.is_main
        self.common: JsonObject = {
            "weights": c.weights,
            "precision": "fp32"
            if isinstance(c, AcquisitionConfig)
            else resolve_precision(c.precision, world.device),
        }
        records: list[JsonObject] = []
        if c.all_checkpoints and world.is_main and os.path.isfile(self.file):
            records = read_log(Path(self.file))
            if not read_bytes(Path(self.file)).endswith(b"\n"):  # of a writer that was killed
                lines = "".join(f"{json_files.dumps(it)}\n" for it in records)
                write_output(self.file, lines)
        self.records: list[JsonObject] = json_files.loads(
            world.all_gather(json_files.dumps(records))[0]
        )

    def describe(self, path: str, asked: JsonObject) -> JsonObject:
        """Updates and words of a checkpoint, and a digest of its weights and what it is asked."""
        if not self.is_active:
            return {}
        facts = read_manifest(Path(path))
        evaluation = sha256(json_files.dumps([facts.files, self.common, asked]))[:16]
        return {"update": facts.update, "words": facts.words, "evaluation": evaluation}

    def find(self, source: JsonObject, head: JsonObject) -> JsonObject | None:
        """The result with the source, such as the path, that has this head."""
        for record in self.records if self.is_active else ():
            if source.items() <= record.items():
                if record.get("evaluation") == head["evaluation"]:
                    return record
                raise ToolkitError(
                    f"{self.file} has a result of {' '.join(map(str, source.values()))} with other "
                    f"weights, data or options. Choose another --results-path."
                )
        return None

    def add(self, record: JsonObject) -> None:
        """Add a result to the file at once, as the next ones may take long."""
        if self.is_active and self.is_main and self.file:
            with open_output(self.file, append=True) as file:
                print(json_files.dumps(record), file=file, flush=True)


def tabulate(records: Sequence[JsonObject], *, paradigms: bool) -> Iterator[Table]:
    """For each run, the accuracy of each group of items by the words, or updates, seen."""
    runs: dict[str, list[JsonObject]] = {}
    for record in records:
        runs.setdefault(str(Path(record["path"]).parent), []).append(record)
    for run, found in runs.items():
        rows: dict[str, dict[str, Cell]] = {}
        unit = "updates" if any(record["words"] is None for record in found) else "words"
        for record in found:
            column = f"{record['words' if unit == 'words' else 'update']:,}"
            for it in list_measures(record):
                if paradigms or not it["part_of"]:
                    rows.setdefault(it["subset"], {})[column] = f"{main_value(it):.4f}"
        columns = list(dict.fromkeys(column for row in rows.values() for column in row))
        yield Table(
            columns=(f"accuracy by {unit}", *columns),
            rows=[[name, *(row.get(it) for it in columns)] for name, row in rows.items()],
            caption=run,
            right_align=columns,
        )
