"""Suites: the sets of an evaluation, how each is scored, and the order of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import FileName, JsonObject, convert, name_file
from toolkit.config.commands.checkpoints import CompletionsConfig, Normalization
from toolkit.config.sections import Scoring
from toolkit.config.yaml_files import read_suite
from toolkit.reporting.runs import main_value
from toolkit.reporting.tables import Table
from toolkit.tasks.completions.results import BASELINES, make_table

Average = Literal["items", "paradigms", "phenomena"]


class SuiteSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A set of a suite; options that it has replace those of the command."""

    files: list[str]
    """Its files, or folders of them, below the folder that is evaluated."""
    task: Literal["completions", "reading_times"] = "completions"
    """reading_times: the scores of the BabyLM challenge; see `rate_reading`."""
    average: Average = "paradigms"
    """What counts equally in its score: items, paradigms, or phenomena and then their paradigms."""
    scoring: Scoring | None = None
    scored: Literal["option", "text"] | None = None
    normalization: Normalization | None = None
    ties: Literal["half", "first"] | None = None


class Part(NamedTuple):
    """A set that is evaluated, with its options."""

    name: str
    """Empty without a suite."""
    average: Average
    config: CompletionsConfig
    reads: bool = False
    """Whether it is a table of reading times."""


def list_parts(c: CompletionsConfig) -> list[Part]:
    """The sets of a suite in order; without one, what the command names."""
    if not c.suite:
        return [Part("", "items", c)]
    remedy = "Each set has a name, and `files: [...]`. toolkit-train reads suites of fine-tuning."
    with name_file(Path(c.suite), remedy):
        tree = convert(read_suite(c.suite, tunes=False), dict[FileName, object])
    sets = dict[str, SuiteSet]()
    for name, content in tree.items():
        remedy = "Its options are `files`, `task`, `average` and those of --task completions."
        with name_file(Path(f"{c.suite}: {name}"), remedy):
            sets[name] = convert(content, SuiteSet)
    if len(c.files) != 1 or not Path(c.files[0]).is_dir():
        raise ToolkitError(f"--suite {c.suite} requires one folder, with the files of its sets.")
    parts = []
    for name, it in sets.items():
        given = {key: value for key, value in msgspec.structs.asdict(it).items() if value}
        average, reads = given.pop("average"), given.pop("task") == "reading_times"
        given["files"] = [str(Path(c.files[0], file)) for file in it.files]
        given["predictions"] = c.predictions and str(Path(c.predictions, f"{name}.jsonl"))
        parts.append(Part(name, average, replace(c, **given), reads))
    return parts


def summarize_set(record: JsonObject, average: Average) -> JsonObject:
    """Averages for which each item, paradigm, or phenomenon and then its paradigms, counts equally.

    The score is the accuracy; Spearman's correlation for ratings, a partial R2 for reading times.
    """
    rows = record["paradigms"] or [
        {**it, "accuracy": main_value(it)} for it in record["correlations"]
    ]
    groups = [it.get("phenomenon") or it["name"] for it in rows]
    sizes = Counter(groups)
    weights = {
        "items": [it.get("items") or it["pairs"] for it in rows],
        "paradigms": [1.0] * len(rows),
        "phenomena": [1 / sizes[group] for group in groups],
    }[average]
    shares = np.array(weights) / sum(weights)
    means = {
        key: float(shares @ [it[key] for it in rows])
        for key in ("accuracy", *BASELINES)
        if key in rows[0]
    }
    errors = shares * np.array([it.get("standard_error") for it in rows], float)
    return {
        "items": sum(it.get("items") or it["pairs"] for it in rows),
        "score": means.pop("accuracy"),
        "standard_error": None if np.isnan(errors).all() else float(np.sqrt(np.nansum(errors**2))),
        "ties": sum(it.get("ties", 0) for it in rows),
        **{"chance": None, "length_only": None, **means},
    }


def suite_table(suite: str, path: str, sets: Mapping[str, JsonObject | None]) -> Table:
    """A row for each set, without numbers if it could not be evaluated, and the mean of scores."""
    found = [it for it in sets.values() if it]
    mean = {"name": f"mean of {len(found)}", "score": sum(it["score"] for it in found) / len(found)}
    rows: list[JsonObject] = [{"name": name, **(it or {})} for name, it in sets.items()]
    known = [key for key in BASELINES if any(key in it for it in found)]
    columns = ("set", "items", "score", "standard_error", "ties", *known)
    return make_table(columns, [*rows, mean], f"{path}: {suite}")
