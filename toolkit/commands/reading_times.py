"""toolkit-validate --task reading_times and age_of_acquisition: surprisal, and how people read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from toolkit.commands.validate import KnownResults, list_checkpoints
from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.common.files import open_output, write_output
from toolkit.common.json_files import JsonObject, sha256
from toolkit.config.commands.checkpoints import CompletionsConfig
from toolkit.config.commands.generate import AcquisitionConfig, ReadingTimesConfig, SurprisalOptions
from toolkit.data.records import row_suffix
from toolkit.distributed import World, launch
from toolkit.generation.output import WordSurprisal
from toolkit.reporting.console import Output, Progress
from toolkit.reporting.tables import Table
from toolkit.tasks.build import load_checkpoint
from toolkit.tasks.completions.acquisition import (
    acquire,
    average_words,
    measure_alone,
    read_contexts,
)
from toolkit.tasks.completions.reading_times import (
    ReadingTimes,
    list_predictors,
    rate_reading,
    read_reading_times,
    regress,
)
from toolkit.tasks.completions.results import make_tables
from toolkit.tasks.completions.surprisal import SurprisalReader, strip_word
from toolkit.tasks.learner import Learner
from toolkit.tasks.task import ScoresTargets, require

SENTENCES_PER_BATCH = 64
MIN_CHECKPOINTS = 4
"""A curve with two parameters and a given end is fitted to this many points."""


def evaluate_reading_times(c: ReadingTimesConfig) -> list[JsonObject]:
    """The regressions of each checkpoint, which are printed and written."""
    with launch(c.device) as world, Output(c.json if world.is_main else None) as output:
        if not world.is_main:
            return []
        data, records = read_reading_times(c.files, c.measures), list[JsonObject]()
        with open_output(c.results_path) if c.results_path else nullcontext() as file:
            for path in c.path:
                records.append(evaluate_checkpoint(path, data, c, world, output))
                if file:
                    print(json_files.dumps(records[-1]), file=file, flush=True)
        return records


def measure_words(
    path: str,
    learner: Learner,
    data: ReadingTimes,
    c: SurprisalOptions,
    max_tokens: int,
    world: World,
) -> tuple[SurprisalReader, list[list[WordSurprisal]]]:
    """The reader of a checkpoint, and what it measures of each sentence."""
    require(learner.task, ScoresTargets)
    reader, words = SurprisalReader(learner, c, max_tokens=max_tokens), []
    for sentence, row in zip(data.sentences, data.first, strict=True):
        try:
            reader.count_tokens(sentence)
        except ToolkitError as error:
            raise row.error(f"{error}.") from None
    count, quiet = len(data.sentences), not world.is_main
    with Progress(f"reading with {path}", count, "sentences", quiet=quiet) as progress:
        for start in range(0, count, SENTENCES_PER_BATCH):
            batch = data.sentences[start : start + SENTENCES_PER_BATCH]
            words += reader.measure(batch)
            progress.advance(len(batch))
    return reader, words


def evaluate_acquisition(c: AcquisitionConfig) -> list[JsonObject]:
    """The ages of acquisition of each run, which are printed."""
    with launch(c.device) as world, Output(c.json if world.is_main else None) as output:
        known = KnownResults(c, world)
        if not world.is_main:
            return []
        contexts, data, human = read_words(c)
        items = sha256(json_files.dumps([data.sentences, data.places] if data else contexts))
        asked: JsonObject = {"items": items, "scoring": c.scoring, "context": c.context}
        runs: dict[str, list[JsonObject]] = {}
        for path in list_checkpoints(c):
            head = known.describe(path, asked)
            if head["words"] is None:
                raise ToolkitError(
                    f"{path} must have counted the words that it has seen, but has not. Preprocess "
                    f"running text again, and train on it."
                )
            record = known.find({"path": path}, head)
            if record is None:
                learner = load_checkpoint(path, weights=c.weights).to(world.device)
                record = {"task": c.task, "path": path, **head}
                if data:
                    reader, words = measure_words(path, learner, data, c, c.max_tokens, world)
                    symbols = len(reader.tokenizer.vocabulary)
                    record["surprisals"] = average_words(data, words, symbols)
                else:
                    record["surprisals"] = measure_alone(learner, [*contexts], c)
                    record["contexts"] = contexts
                known.add(record)
            runs.setdefault(str(Path(path).parent), []).append(record)
        return [report_ages(run, records, human, output) for run, records in runs.items()]


def read_words(
    c: AcquisitionConfig,
) -> tuple[dict[str, int], ReadingTimes | None, dict[str, float]]:
    """Words to measure alone, with numbers of contexts, or in sentences; and their human ages."""
    file = Path(c.files[0])
    if row_suffix(file) == ".json" and len(c.files) == 1:
        contexts = read_contexts(file)
        return contexts, None, dict.fromkeys(contexts, math.nan)
    data = read_reading_times(c.files, [c.age])
    named = [strip_word(data.sentences[it].split()[index]) for it, index in data.places]
    return {}, data, dict(zip(named, data.measures[c.age].tolist(), strict=True))


def report_ages(
    run: str, records: Sequence[JsonObject], human: Mapping[str, float], output: Output
) -> JsonObject:
    """Fit, print and return the ages of one run."""
    if len(records) < MIN_CHECKPOINTS:
        raise ToolkitError(
            f"{run} must have at least {MIN_CHECKPOINTS} checkpoints, but --path names "
            f"{len(records)}. Name the save folder, and train with --save-at-words log."
        )
    found = {"run": run, **acquire(records, human)}
    output.write(records[0]["task"], found)
    early, start = found["before_first"], f"before {records[0]['words']:,}"
    cells = {word: f"{age:,.0f}" for word, (age, _) in found["ages"].items() if age is not None}
    cells |= dict.fromkeys(early, start)
    rows = [
        [word, cells.get(word), None if own is None else f"{own:g}"]
        for word, (_, own) in found["ages"].items()
    ]
    names = ["word", "words seen", "human age"]
    Table(columns=names, rows=rows, caption=run, right_align=names[1:]).print(output.console)
    output.print_line(
        f"{found['acquired']} of {found['words']} words acquired, {len(early)} more {start} words; "
        f"correlation of log words with human ages over {found['compared']}: "
        f"Spearman {found['spearman']:.3f}, Pearson {found['pearson']:.3f}."
    )
    return found


def evaluate_checkpoint(
    path: str, data: ReadingTimes, c: ReadingTimesConfig, world: World, output: Output
) -> JsonObject:
    """A regression for each measure."""
    learner = load_checkpoint(path, weights=c.weights).to(world.device)
    reader, words = measure_words(path, learner, data, c, c.max_tokens, world)
    predictors = list_predictors(data, words)
    sentences = np.array([sentence for sentence, _ in data.places])
    rows = [regress(name, y, predictors, sentences) for name, y in data.measures.items()]
    scoring = reader.scorer.scoring
    record: JsonObject = {"task": c.task, "path": path, "scoring": scoring, "measures": rows}
    output.write(c.task, record)
    names = ["measure", "words", "added log-likelihood", "95% interval", "slope", "R2"]
    cells = [
        [
            *(row["measure"], f"{row['words']:,}", f"{row['added_log_likelihood']:.5f}"),
            f"{row['low']:.5f} to {row['high']:.5f}",
            f"{row['slope']:.3f} +- {row['slope_error']:.3f}",
            f"{row['r2_baseline']:.4f} to {row['r2']:.4f}",
        ]
        for row in rows
    ]
    table = Table(columns=names, rows=cells, caption=f"{path}: {scoring}", right_align=names[1:])
    table.print(output.console)
    return record


def rate_checkpoint(
    learner: Learner,
    path: str,
    data: ReadingTimes,
    c: CompletionsConfig,
    max_tokens: int,
    world: World,
    output: Output,
) -> JsonObject:
    """The scores of the BabyLM challenge, as the result of a set of a suite."""
    options = SurprisalOptions(scoring=c.scoring)
    reader, words = measure_words(path, learner, data, options, max_tokens, world)
    scores, answers = rate_reading(data, words)
    empty: JsonObject = {"overall": {}, "fields": [], "phenomena": [], "paradigms": []}
    record: JsonObject = {
        **{"task": "reading_times", "path": path, "scoring": reader.scorer.scoring},
        **{"normalization": "none", "precision": "fp32", **empty, "correlations": scores},
    }
    if world.is_main:
        output.write(record["task"], record)
        for table in [] if c.all_checkpoints else make_tables(record, paradigms=False):
            table.print(output.console)
        if c.predictions:
            lines = "".join(f"{json_files.dumps(it)}\n" for it in answers)
            write_output(c.predictions, lines)
    return record
