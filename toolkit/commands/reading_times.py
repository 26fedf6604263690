"""toolkit-validate --task reading_times: what surprisal says about how people read."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.common.files import open_output
from toolkit.common.json_files import JsonObject
from toolkit.config.commands.reading_times import ReadingTimesConfig
from toolkit.distributed import World, launch
from toolkit.reporting.console import Output, Progress
from toolkit.reporting.tables import Table
from toolkit.tasks.build import load_checkpoint
from toolkit.tasks.completions.reading_times import (
    ReadingTimes,
    list_predictors,
    read_reading_times,
    regress,
)
from toolkit.tasks.completions.surprisal import SurprisalReader
from toolkit.tasks.task import ScoresTargets, require

SENTENCES_PER_BATCH = 64


def evaluate_reading_times(c: ReadingTimesConfig) -> list[JsonObject]:
    """The regressions of each checkpoint, which are printed and written."""
    with launch(c.device) as world, Output(c.json if world.is_main else None) as output:
        if not world.is_main:
            return []
        data, records = read_reading_times(c.files, c.measures), list[JsonObject]()
        with (
            open_output("--results-path", c.results_path)
            if c.results_path
            else nullcontext() as file
        ):
            for path in c.path:
                records.append(evaluate_checkpoint(path, data, c, world, output))
                if file:
                    print(json_files.dumps(records[-1]), file=file, flush=True)
        return records


def evaluate_checkpoint(
    path: str, data: ReadingTimes, c: ReadingTimesConfig, world: World, output: Output
) -> JsonObject:
    """A regression for each measure."""
    learner = load_checkpoint(path, weights=c.weights).to(world.device)
    require(learner.task, ScoresTargets)
    reader, words = SurprisalReader(learner, c, max_tokens=c.max_tokens), []
    for sentence, row in zip(data.sentences, data.first, strict=True):
        try:
            reader.count_tokens(sentence)
        except ToolkitError as error:
            raise row.error(f"{error}.") from None
    with Progress(f"reading with {path}", len(data.sentences), "sentences") as progress:
        for start in range(0, len(data.sentences), SENTENCES_PER_BATCH):
            batch = data.sentences[start : start + SENTENCES_PER_BATCH]
            words += reader.measure(batch)
            progress.advance(len(batch))
    predictors = list_predictors(data, words)
    sentences = np.array([sentence for sentence, _ in data.places])
    rows = [regress(name, y, predictors, sentences) for name, y in data.measures.items()]
    record: JsonObject = {"task": c.task, "path": path, "scoring": reader.scorer.scoring}
    record["measures"] = rows
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
    caption = f"{path}: {reader.scorer.scoring}"
    Table(columns=names, rows=cells, caption=caption, right_align=names[1:]).print(output.console)
    return record
