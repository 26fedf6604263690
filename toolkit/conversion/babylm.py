"""toolkit-convert babylm: models, model card and predictions for the BabyLM challenge of 2025.

Names and forms are those of github.com/babylm/evaluation-pipeline-2025: revisions are chck_1M, ...
for the words seen, as in README.md; predictions.json is what collate_preds.py writes, a JSON object
with the answers of the final model by set, and `fast_eval_results`, accuracies of each revision.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from scipy.special import softmax

from toolkit.checkpoints.load import find_checkpoint, read_config
from toolkit.checkpoints.save_folder import SaveFolder, read_manifest
from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.common.files import atomic_file, read_bytes
from toolkit.common.json_files import JsonObject, convert, name_file, read_json, sha256, write_json
from toolkit.config.command import CHECKPOINT_LINKS, MANIFEST, format_columns
from toolkit.config.commands.checkpoints import BabylmConfig
from toolkit.config.values import locate_checkpoint
from toolkit.config.yaml_files import SUITE, read_yaml
from toolkit.conversion.convert import convert_model
from toolkit.conversion.files import MODEL_CARD_FILE
from toolkit.reporting.console import Output, heartbeat
from toolkit.reporting.runs import main_value, read_log
from toolkit.reporting.tables import Table
from toolkit.training.callbacks.checkpointing import WORDS

FAST, FULL, GLUE = "babylm-2025-fast", "babylm-2025-full", "babylm-2025-glue"
READING, EWOK, AGES = "reading", "ewok", "aoa"
"""Sets of words, in context and alone, of which the challenge wants surprisals; between them the
one that is left out. Its program compares both targets after a context;
`toolkit.tasks.completions.items`, contexts before a target.
"""
SIZES = {
    **{"blimp": 59_875, "blimp_supplement": 5218, "entity_tracking": 9483, "comps": 91_028},
    **{"wug_adj": 200, "wug_past": 50, READING: 1726, "boolq": 1635, "mnli": 4908, "mrpc": 204},
    **{"multirc": 2424, "qqp": 20_215, "rte": 139, "wsc": 52},
    **{"fast blimp": 13_400, "fast blimp_supplement": 250, "fast entity_tracking": 3152},
    **{"fast wug_adj": 200, "fast wug_past": 50, AGES: 6560},
}
"""Items of each set, of ages for each revision; collate_preds.py rejects other numbers."""
WHOLE_SETS = "The challenge wants whole sets, of all revisions and without --limit."
MAIN, RECORD_FILE, PREDICTIONS_FILE = "main", "revisions.json", "predictions.json"
REQUIRED = [n * unit for unit in (10**6, 10**7, 10**8) for n in range(1, 10)] + [10**9]
"""Words seen at which the challenge wants a revision, up to those of the last one."""


def write_entry(c: BabylmConfig) -> Path:
    """Export each revision once, and write predictions and scores; reports what is missing."""
    source, target = map(Path, c.paths)
    run = source.parent if (source / MANIFEST).exists() else source
    revisions = {MAIN: find_checkpoint(source), **list_revisions(run)}
    records = [record for file in c.results for record in read_log(Path(file))]
    predictions = {
        **collect_answers(c),
        **collect_ages(revisions, records),
        "glue": collect_classes(c.fine_tuned),
        "fast_eval_results": collect_accuracies(revisions, records),
    }
    own = select_results(revisions[MAIN], records)
    if c.predictions:
        check_answers(Path(c.predictions), own)
    last = max(read_manifest(it).words or 0 for it in revisions.values())
    wanted = [name_revision(words) for words in REQUIRED if words <= last]
    missing = [name for name in wanted if name not in revisions] + missing_sets(predictions)
    with Output(c.json) as output:
        target.mkdir(parents=True, exist_ok=True)
        with heartbeat("exporting"):
            kept = [it for it in revisions if not export_revision(it, revisions[it], target, c)]
        write_scores(target / MAIN / MODEL_CARD_FILE, own, c.fine_tuned)
        write_json(target / PREDICTIONS_FILE, predictions)
        incomplete = find_incomplete(predictions, revisions, records)
        facts = {"revisions": [*revisions], "kept": kept, "missing": missing}
        facts |= {"incomplete": incomplete}
        output.write("entry", {"from": str(source), "to": str(target), **facts})
        rows = {name: ", ".join(it) for name, it in facts.items() if it}
        if incomplete:
            rows["incomplete"] += f". {WHOLE_SETS}"
        rows["written to"] = str(target)
        print(format_columns(rows.items()), file=output.text_stream)
    return target


def list_revisions(run: Path) -> dict[str, Path]:
    """chck_1M and so on -> the checkpoint of --save-at-words, by the words seen."""
    found = dict[str, Path]()
    for checkpoint in reversed(SaveFolder(run).checkpoints()):
        facts = read_manifest(checkpoint)
        if facts.words is None:
            raise ToolkitError(
                f"checkpoint {checkpoint} must have a count of the words seen, but has none. "
                f"Preprocess the text again, and train with --save-at-words."
            )
        if WORDS in facts.reasons:
            marks = read_config(checkpoint)[0].checkpoint.word_marks
            found[name_revision(max(it for it in marks if it <= facts.words))] = checkpoint
    if not found:
        raise ToolkitError(
            f"{run} must be a save folder with checkpoints by words seen, but has none. Train with "
            f"--save-at-words 1M,2M,...,10M,20M,...,100M."
        )
    return found


def name_revision(words: int) -> str:
    """chck_7M after 7,000,000 words; chck_500K and chck_1234 for fewer and other numbers."""
    units = {"M": 10**6, "K": 1000, "": 1}
    return next(f"chck_{words // n}{unit}" for unit, n in units.items() if words % n == 0)


def export_revision(name: str, checkpoint: Path, target: Path, c: BabylmConfig) -> bool:
    """Write the folder of a revision unless it is there; returns whether it was written.

    What it holds is recorded before it appears, so that a folder is never taken for another one.
    """
    record = target / RECORD_FILE
    known = read_json(record, dict[str, JsonObject], "Delete it.") if record.exists() else {}
    facts, folder = read_manifest(checkpoint), target / name
    digest = sha256(json_files.dumps([facts.files, c.weights, c.classes, c.component]))[:16]
    if folder.exists():
        if known.get(name, {}).get("digest") == digest:
            return False
        raise ToolkitError(
            f"{folder} must be the export of {checkpoint}, but is of other weights or options. "
            f"Delete it, or choose another DESTINATION."
        )
    of_run = {"checkpoint": checkpoint.name, "update": facts.update, "words": facts.words}
    write_json(record, {**known, name: {**of_run, "digest": digest}}, indent=1)
    convert_model(checkpoint, folder, c)
    return True


class ScoredItem(msgspec.Struct, frozen=True):
    """What is read of a line of toolkit-validate --predictions."""

    paradigm: str
    prefixes: list[str]
    options: list[str]
    scores: list[float]
    rating: float | None = None


def collect_answers(c: BabylmConfig) -> dict[str, JsonObject]:
    """Set -> paradigm -> the best option of each item, the first of those with equal scores."""
    files = {name: Path(c.predictions or "", f"{name}.jsonl") for name in read_yaml(SUITE + FULL)}
    if c.predictions and not any(file.exists() for file in files.values()):
        raise ToolkitError(
            f"{c.predictions} must hold {', '.join(file.name for file in files.values())}, but "
            f"holds none. Name the folder of toolkit-validate --suite {FULL} --predictions."
        )
    answers = dict[str, JsonObject]()
    for name, file in files.items() if c.predictions else ():
        if not file.exists() or name == EWOK:
            continue
        with name_file(file, f"Write it with toolkit-validate --suite {FULL} --predictions."):
            rows = read_log(file)
            items = [] if name == READING else convert(rows, list[ScoredItem])
        if name == READING:
            numbered = [{"id": number, **row} for number, row in enumerate(rows)]
            answers[name] = {name: {"predictions": numbered}}
            continue
        paradigms = answers.setdefault(name, {})
        for item in items:
            key = item.paradigm
            if name == "comps":  # the names of its files without what is common to them
                key = key.removeprefix("comps_").replace("-", "_")
            rows = paradigms.setdefault(key, {"predictions": []})["predictions"]
            best = item.scores.index(max(item.scores))
            text = item.options[best]
            if len({*item.options}) < len(item.options):  # they differ in their prefixes alone
                text = f"{item.prefixes[best]} {text}".strip()
            rows.append({"id": f"{key}_{len(rows)}", "pred": text})
            if item.rating is not None:
                rows[-1]["prob"] = float(softmax(item.scores)[0])
    return answers


def read_fine_tuned(folder: str | None) -> list[JsonObject]:
    """The tasks in the suite.json of toolkit-train --suite, without those that are left out."""
    if not folder:
        return []
    remedy = f"Name the save folder of toolkit-train --suite {GLUE}."
    table = read_json(Path(folder, "suite.json"), JsonObject, remedy)
    return [task for task in table.get("tasks", []) if "seeds" in task]


def collect_classes(folder: str | None) -> dict[str, JsonObject]:
    """Fine-tuned task -> the classes that its run with the first seed predicts."""
    found = dict[str, JsonObject]()
    for task in read_fine_tuned(folder):
        file, name = Path(folder or "", task["predictions"]), task["task"]
        with name_file(file, f"Give the command toolkit-train --suite {GLUE} again."):
            lines = read_bytes(file).decode().splitlines()[1:]
        try:
            rows = [line.replace(",", "\t").split("\t") for line in lines]  # options have commas
            answers = [{"id": f"{name}_{index}", "pred": int(answer)} for index, answer in rows]
        except ValueError:
            raise ToolkitError(
                f"{file} must have two columns, the second one with numbers. Predict with data "
                f"whose labels are numbers, as those of --suite {GLUE}."
            ) from None
        found[name] = {"predictions": answers}
    return found


def resolve(path: Path | str) -> Path:
    """The checkpoint at a path of results, which may be that of its save folder."""
    return (locate_checkpoint(Path(path), *CHECKPOINT_LINKS) or Path(path)).resolve()


def list_results(
    revisions: Mapping[str, Path], records: Sequence[JsonObject], suite: str | None
) -> Iterator[tuple[int, JsonObject]]:
    """The results of a suite on revisions, with their numbers among the revisions after MAIN."""
    paths = [resolve(path) for name, path in revisions.items() if name != MAIN]
    for record in records:
        path = resolve(record.get("path", ""))
        if record.get("suite") == suite and path in paths:
            yield paths.index(path), record


def collect_accuracies(
    revisions: Mapping[str, Path], records: Sequence[JsonObject]
) -> dict[str, list[JsonObject | None]]:
    """Set of the fast suite -> accuracy, or correlation, by paradigm, of each revision."""
    found = dict[str, list[JsonObject | None]]()
    for number, record in list_results(revisions, records, FAST):
        if record["set"] != EWOK:
            rows = [*record["paradigms"], *record["correlations"]]
            row = {it["name"]: main_value(it) for it in rows}
            found.setdefault(record["set"], [None] * (len(revisions) - 1))[number] = row
    return found


def collect_ages(
    revisions: Mapping[str, Path], records: Sequence[JsonObject]
) -> dict[str, JsonObject]:
    """The surprisal of each word in nats, once for each of its contexts, by revision."""
    found = {n: it for n, it in list_results(revisions, records, None) if "contexts" in it}
    names = [name for name in revisions if name != MAIN]
    rows = [
        {
            **{"step": names[number], "target_word": word, "context_id": index},
            **{"context": "BOS_ONLY", "surprisal": it["surprisals"][word][0] * math.log(2)},
        }
        for number, it in sorted(found.items())
        for word, count in it["contexts"].items()
        for index in range(count)
    ]
    facts = {"use_bos_only": True, "total_steps": len(names), "completed_steps": len(found)}
    return {AGES: {"metadata": facts, "results": rows}} if found else {}


def missing_sets(predictions: Mapping[str, Any]) -> list[str]:
    """What collate_preds.py wants and the predictions lack."""
    tuned, fast = predictions["glue"], predictions["fast_eval_results"]
    missing = [
        *(name for name in (*read_yaml(SUITE + FULL), AGES) if name not in predictions),
        *(name for name in read_yaml(SUITE + GLUE)["tasks"] if name not in tuned),
        *(f"fast {name}" for name in read_yaml(SUITE + FAST) if None in fast.get(name, [None])),
    ]
    why = "the challenge compares targets, toolkit-validate contexts"
    return [f"{name} ({why})" if name.endswith(EWOK) else name for name in missing]


def find_incomplete(
    predictions: Mapping[str, Any], revisions: Mapping[str, Path], records: Sequence[JsonObject]
) -> list[str]:
    """The sets that were evaluated on other numbers of items than the challenge wants."""
    answers = [(name, predictions[name]) for name in read_yaml(SUITE + FULL) if name in predictions]
    answers += [(name, {name: it}) for name, it in predictions["glue"].items()]
    counts = [
        *((name, sum(len(it["predictions"]) for it in rows.values())) for name, rows in answers),
        *((f"fast {it['set']}", it["items"]) for _, it in list_results(revisions, records, FAST)),
    ]
    counts += [(AGES, len(predictions[AGES]["results"]))] if AGES in predictions else []
    sizes = SIZES | {AGES: SIZES[AGES] * (len(revisions) - 1)}
    found = {it: sizes.get(it[0], it[1]) for it in counts}
    return [f"{name} ({n:,} of {size:,} items)" for (name, n), size in found.items() if n != size]


def select_results(checkpoint: Path, records: Sequence[JsonObject]) -> list[JsonObject]:
    """The results of the full suite that are of the final model; others alone are an error."""
    full = [it for it in records if it.get("suite") == FULL]
    own = [it for it in full if resolve(it["path"]) == resolve(checkpoint)]
    if full and not own:
        raise ToolkitError(
            f"the results of --suite {FULL} must be of the final model, {checkpoint}, but are of "
            f"{resolve(full[0]['path'])}. Give that checkpoint as SOURCE, or evaluate this one."
        )
    return own


def check_answers(folder: Path, results: Sequence[JsonObject]) -> None:
    """Raise if the items that are right among the answers do not give the accuracies of results."""
    for record in results:
        file, correct = folder / f"{record['set']}.jsonl", dict[str, list[float]]()
        for row in read_log(file) if file.exists() else ():
            if "correct" in row:
                correct.setdefault(row["paradigm"], []).append(row["correct"])
        for it in record["paradigms"]:
            values = correct.get(it["name"], [it["accuracy"]])
            if not math.isclose(sum(values) / len(values), it["accuracy"], abs_tol=1e-9):
                raise ToolkitError(
                    f"{file} must have the accuracies of the results of {record['path']}, but has "
                    f"another one on {it['name']}. Give toolkit-validate --suite {FULL} once with "
                    f"--predictions and --results-path."
                )


SCORES = "## Scores\n"


def write_scores(card: Path, records: Sequence[JsonObject], fine_tuned: str | None) -> None:
    """Replace the last section of a model card by the scores of the final model."""
    suite = [
        [record["set"], "zero-shot", record["score"], record["standard_error"]]
        for record in records
    ]
    tuned = [
        [task["task"], f"fine-tuned, {task['metric']}, {task['n']} runs", task["mean"], None]
        for task in read_fine_tuned(fine_tuned)
    ]
    text = card.read_text("utf-8").partition(SCORES)[0].rstrip() + "\n"
    if rows := [*suite, *tuned]:
        columns = ("set", "evaluation", "score", "standard error")
        table = Table(columns=columns, rows=rows, shared_precision=columns[2:])
        text += f"\n{SCORES}\n{table.markdown()}"
    with atomic_file(card) as temporary:
        temporary.write_text(text, "utf-8")
