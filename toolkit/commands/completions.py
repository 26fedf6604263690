"""toolkit-validate --task completions and minimal_pairs: accuracy on options and pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from toolkit.commands.reading_times import rate_checkpoint
from toolkit.commands.validate import KnownResults, list_checkpoints, tabulate
from toolkit.common import json_files
from toolkit.common.arrays import FloatArray
from toolkit.common.errors import ToolkitError, describe_error
from toolkit.common.files import check_output, open_output, write_output
from toolkit.common.json_files import JsonObject, sha256
from toolkit.common.system import keep_freed_memory
from toolkit.config.commands.checkpoints import MINIMAL_PAIRS_TASK, CompletionsConfig
from toolkit.data.tokenizers.offsets import to_line
from toolkit.distributed import World, launch
from toolkit.optim.update import Precision, resolve_precision
from toolkit.reporting.console import Output, Progress
from toolkit.reporting.runs import name_model
from toolkit.reporting.tables import Table
from toolkit.tasks.build import load_checkpoint
from toolkit.tasks.completions.items import Item, read_sets
from toolkit.tasks.completions.reading_times import (
    EYES,
    SELF_PACED,
    ReadingTimes,
    read_reading_times,
)
from toolkit.tasks.completions.results import (
    Outcome,
    Scores,
    compare,
    correlate,
    judge,
    make_tables,
    summarize,
)
from toolkit.tasks.completions.scorer import EncodedText, TextScorer
from toolkit.tasks.completions.suites import Part, list_parts, suite_table, summarize_set
from toolkit.tasks.completions.surprisal import read_frequencies
from toolkit.tasks.learner import Learner

Items = Sequence[Item] | ReadingTimes
"""What is read of a set."""
MAX_TOKENS = {"cpu": 4096, "cuda": 32_768}
"""Device -> default number of tokens per batch; others as cuda."""
TOLERANCES = {"fp32": 1e-4, "tf32": 5e-3, "fp16": 5e-3, "bf16": 4e-2}
"""Precision -> largest difference of two scores that is a tie. Models that ignore word order score
permuted sentences equally up to rounding, by at most 2e-5 in fp32 and 3e-2 in bf16 on BLiMP."""


def evaluate_completions(c: CompletionsConfig) -> list[JsonObject]:
    """The results of each checkpoint on each set, printed and written; see `summarize`."""
    keep_freed_memory()
    with launch(c.device) as world, Output(c.json if world.is_main else None) as output:
        if c.predictions is not None:
            if c.suite:
                Path(c.predictions).mkdir(parents=True, exist_ok=True)
            check_output(c.predictions, allow_folder=bool(c.suite))
        parts, records, known = list_parts(c), list[JsonObject](), KnownResults(c, world)
        items = read_parts(parts, c, world, output)
        path = c.results_path if world.is_main and not c.all_checkpoints else None
        outcomes = dict[str, dict[str, list[Outcome]]]()
        with nullcontext() if path is None else open_output(path) as file:
            for checkpoint in list_checkpoints(c):
                for record in evaluate_checkpoint(
                    checkpoint, parts, items, c, known, outcomes, world, output
                ):
                    records.append(record)
                    if file:
                        print(json_files.dumps(record), file=file, flush=True)
        if c.all_checkpoints and world.is_main:
            for table in tabulate(records, paradigms=c.paradigms):
                table.print(output.console)
        return records


def read_parts(
    parts: Sequence[Part], c: CompletionsConfig, world: World, output: Output
) -> dict[str, Items]:
    """The items of each set, without those of a suite that are left out."""
    items = dict[str, Items]()
    for part in parts:
        with leave_out(part, world, output):
            if part.reads:
                measures = [*EYES, *SELF_PACED]
                items[part.name] = read_reading_times(part.config.files, measures)
                continue
            found, remarks = read_sets(part.config.files, c.limit)
            for item in found if c.task == MINIMAL_PAIRS_TASK else ():
                if len(item.options) != 2 or any(item.prefixes) or item.rating is not None:
                    problem = "a minimal pair is two sentences, but this is another kind of item."
                    raise ToolkitError(
                        f"{item.file}:{item.line}: {problem} Choose --task completions."
                    )
            for remark in remarks if world.is_main else ():
                output.print_line(remark)
            items[part.name] = found
    return items


def evaluate_checkpoint(
    path: str,
    parts: Sequence[Part],
    items: Mapping[str, Items],
    c: CompletionsConfig,
    known: KnownResults,
    outcomes: dict[str, dict[str, list[Outcome]]],
    world: World,
    output: Output,
) -> Iterator[JsonObject]:
    """The results of one checkpoint on each set; the scores of a suite are printed and written.

    `outcomes` has, for each set, models and the outcomes of their seeds; the first one is compared
    with the others.
    """
    there = [part for part in parts if part.name in items]
    heads = {
        it.name: known.describe(path, describe_items(it.config, items[it.name])) for it in there
    }
    found = {
        name: known.find({"path": path, **({"set": name} if name else {})}, head)
        for name, head in heads.items()
    }
    is_known = all(found.values())
    learner = None if is_known else load_checkpoint(path, weights=c.weights).to(world.device)
    rows: dict[str, JsonObject | None] = {part.name: None for part in parts}
    for part in there:
        with leave_out(part, world, output):
            record = found[part.name]
            if record is None:
                assert learner is not None
                record = evaluate_on_items(
                    learner, path, items[part.name], part, outcomes, world, output
                )
            if c.suite:
                rows[part.name] = summary = summarize_set(record, part.average)
                record |= {"suite": c.suite, "set": part.name, **summary}
            if found[part.name] is None:
                known.add(record := record | heads[part.name])
            yield record
    if c.suite and not any(rows.values()):
        raise ToolkitError(f"no set of --suite {c.suite} could be evaluated. See the lines above.")
    if c.suite and world.is_main:
        output.write("suite", {"path": path, "suite": c.suite, "sets": rows})
        if not c.all_checkpoints:
            suite_table(c.suite, path, rows).print(output.console)


def describe_items(c: CompletionsConfig, items: Items) -> JsonObject:
    """What decides the results of a checkpoint: the items, and how their options are scored."""
    if not c.all_checkpoints:
        return {}
    texts: list[object] = (
        [items.sentences, items.places]
        if isinstance(items, ReadingTimes)
        else [[it.prefixes, it.options, it.answer, it.rating, it.paradigm] for it in items]
    )
    names = ("task", "scoring", "scored", "normalization", "ties", "frequencies")
    return {"items": sha256(json_files.dumps(texts)), **{it: getattr(c, it) for it in names}}


@contextmanager
def leave_out(part: Part, world: World, output: Output) -> Iterator[None]:
    """Report a set of a suite that is missing or cannot be read, instead of an error."""
    try:
        yield
    except (ToolkitError, OSError) as error:
        if not part.name:
            raise
        if world.is_main:
            output.print_line(f"{part.name} is left out: {describe_error(error)}")


def evaluate_on_items(
    learner: Learner,
    path: str,
    items: Items,
    part: Part,
    outcomes: dict[str, dict[str, list[Outcome]]],
    world: World,
    output: Output,
) -> JsonObject:
    """The results of one checkpoint on one set."""
    c = part.config
    max_tokens = c.max_tokens or MAX_TOKENS.get(world.device.type, MAX_TOKENS["cuda"])
    if isinstance(items, ReadingTimes):
        return rate_checkpoint(learner, path, items, c, max_tokens, world, output)
    precision = Precision(resolve_precision(c.precision, world.device), world.device)
    scorer = TextScorer(learner, c.scoring, precision=precision, max_tokens=max_tokens)
    texts = encode_items(scorer, items, c.scored, path)
    unit = "pairs" if c.task == MINIMAL_PAIRS_TASK else "items"
    if world.is_main:
        for remark in describe_tokens(items, texts, scorer, unit, path):
            output.print_line(remark)
    started = perf_counter()
    with Progress(f"scoring with {path}", len(items), unit, quiet=not world.is_main) as progress:
        scores, misses = score_items(scorer, items, texts, progress, world)
    seconds = perf_counter() - started
    found = to_scores(items, scores, misses, texts, c.normalization, precision.name, c.ties)
    check_finite(items, found, precision.name)
    zipf = read_frequencies(Path(c.frequencies)) if c.frequencies else None
    outcome = judge(items, found, c.ties, zipf)
    kept = np.array([item.rating is None for item in items])
    record: JsonObject = {
        **{"task": c.task, "path": path, **({"set": part.name} if part.name else {})},
        **{"scoring": scorer.scoring, "normalization": c.normalization},
        "precision": precision.name,
    }
    empty: JsonObject = {"overall": {}, "fields": [], "phenomena": [], "paradigms": []}
    choices = [item for item in items if item.rating is None]
    chosen = Outcome(*(it[kept] for it in outcome))
    record |= summarize(choices, chosen, unit) if choices else empty
    if choices and not c.all_checkpoints:
        models = outcomes.setdefault(part.name, {})
        record |= compare_with_first(models, path, choices, chosen, unit)
    if c.task != MINIMAL_PAIRS_TASK:
        record["correlations"] = correlate(items, found.scores)
    if world.is_main:
        tables = [] if c.all_checkpoints else make_tables(record, paradigms=c.paradigms)
        report(record, len(items), unit, seconds, output, tables)
        if c.predictions:
            write_scores(c.predictions, c.task, items, found, outcome)
    return record


def compare_with_first(
    models: dict[str, list[Outcome]], path: str, items: Sequence[Item], outcome: Outcome, unit: str
) -> JsonObject:
    """Add an outcome to those of its model; the accuracy over several seeds so far, and the
    difference of another model from the first one."""
    seeds = models.setdefault(name_model(path), [])
    seeds.append(outcome)
    name, first = next(iter(models.items()))
    record: JsonObject = {}
    if len(seeds) > 1:
        facts = {"model": name_model(path), "seeds": len(seeds)}
        record["over_seeds"] = {**facts, "groups": compare(items, seeds, [], unit)}
    if first is not seeds:
        groups = compare(items, seeds, first, unit)
        facts = {"from": name, "seeds": [len(seeds), len(first)]}
        record["difference"] = {**facts, "groups": groups}
    return record


def check_finite(items: Sequence[Item], found: Scores, precision: str) -> None:
    """Raise if a score is not a number, as of a broken checkpoint."""
    for number in np.flatnonzero(np.isnan(found.scores).any(1) | np.isinf(found.scores[:, 0]))[:1]:
        values = [f"{it}" for it in found.scores[number, : len(items[number].options)]]
        raise ToolkitError(
            f"{items[number].file}:{items[number].line}: scores must be finite, but in {precision} "
            f"they are {' and '.join(values)}. Choose --precision fp32; if they are the same "
            f"there, the checkpoint is broken."
        )


def to_scores(
    items: Sequence[Item],
    scores: FloatArray,
    misses: FloatArray,
    texts: Sequence[EncodedText],
    normalization: str,
    precision: str,
    ties: str,
) -> Scores:
    """A row for each item, with the normalization.

    With ties `half`, scores are equal up to rounding. With `first` they are numbers of float32, and
    only equal numbers are ties: the rule of the evaluator of the BabyLM challenge, an argmax.
    """
    counts = [len(item.options) for item in items]
    there = np.arange(max(counts)) < np.array(counts)[:, None]
    tokens, sizes = np.ones((2, *there.shape), np.int64)
    tokens[there] = [text.size for text in texts]
    if normalization == "tokens":
        sizes = tokens
    elif normalization == "characters":
        sizes[there] = [len(to_line(option)) for item in items for option in item.options]
    grid, missed = np.full(there.shape, -np.inf), np.zeros(there.shape, np.int64)
    grid[there], missed[there] = scores, misses
    smallest = np.where(there, sizes, sizes.max()).min(1)
    found = Scores(grid / sizes, tokens, missed, TOLERANCES[precision] / smallest)
    if ties == "first":
        exact = found.scores.astype(np.float32).astype(float)
        found = found._replace(scores=exact, tolerance=found.tolerance * 0)
    return found


def report(
    record: JsonObject,
    count: int,
    unit: str,
    seconds: float,
    output: Output,
    tables: Sequence[Table],
) -> None:
    """Write the results as JSON, and print them with the speed."""
    output.write(record["task"], record)
    rate = count / max(seconds, 1e-9)
    output.write("end", {unit: count, "seconds": seconds, f"{unit}_per_second": rate})
    for table in tables:
        table.print(output.console)
    one = unit.removesuffix("s") if count == 1 else unit
    output.print_line(f"{count:,} {one} in {seconds:.1f} s: {rate:,.1f} {unit}/s.")


def write_scores(
    path: str, task: str, items: Sequence[Item], found: Scores, outcome: Outcome
) -> None:
    """One JSON line per item."""
    lines = []
    for item, score, count, result in zip(
        items, found.scores.tolist(), found.tokens.tolist(), outcome.correct.tolist(), strict=True
    ):
        name, size = item.paradigm.name, len(item.options)
        row: JsonObject = {"paradigm": name, "file": str(item.file), "line": item.line}
        columns = {"sentence": item.options, "score": score[:size], "tokens": count[:size]}
        if task == MINIMAL_PAIRS_TASK:
            for name, values in columns.items():
                row |= {f"{name}_good": values[0], f"{name}_bad": values[1]}
        else:
            row |= {"prefixes": list(item.prefixes), "options": columns.pop("sentence")}
            row |= {"scores": columns["score"], "tokens": columns["tokens"]}
            row |= {"answer": item.answer} if item.rating is None else {"rating": item.rating}
        if item.rating is None:
            row["correct"] = result
        lines.append(json_files.dumps(row) + "\n")
    write_output(path, "".join(lines))


ITEMS_PER_CHUNK = 256
"""Items whose inputs exist at a time; equal inputs among them are computed once."""
TOKENS_PER_CHUNK = 1 << 22
"""Limit of the tokens of these inputs: a text of T tokens has up to T inputs of this length."""


def encode_items(
    scorer: TextScorer, items: Sequence[Item], scored: str, path: str
) -> list[EncodedText]:
    """The options of each item in turn; raises if one cannot be read."""
    options = [option for item in items for option in item.options]
    texts = scorer.encode(
        [text for item in items for text in item.texts], options if scored == "option" else None
    )
    owners = [item for item in items for _ in item.options]
    limit = scorer.max_length
    for item, text in zip(owners, texts, strict=True):
        length = max(len(text.tokens), len(text.source))
        if limit is not None and length > limit:
            raise ToolkitError(
                f"{item.file}:{item.line}: a sentence must have at most {limit} tokens for {path}, "
                f"but has {length}. Shorten it, or remove the item."
            )
        if not text.size:
            raise ToolkitError(
                f"{item.file}:{item.line}: a sentence has no tokens. Remove the item."
            )
    return texts


def describe_tokens(
    items: Sequence[Item], texts: Sequence[EncodedText], scorer: TextScorer, unit: str, path: str
) -> Iterator[str]:
    """Remarks on options that the tokenizer makes equal, and on tokens that it lacks."""
    equal, start = [], 0
    for item in items:
        group = texts[start : start + len(item.options)]
        start += len(group)
        distinct = {(it.source.tobytes(), it.tokens.tobytes()) for it in group}
        if len(distinct) < len(group) == len(set(item.texts)):
            equal.append(item)
    if equal:
        subject = f"{len(equal):,} {unit} have" if len(equal) > 1 else f"1 {unit[:-1]} has"
        what = "both sentences" if unit == "pairs" else "several options"
        yield (
            f"{subject} the same tokens in {what} for {path} and will be counted as ties; "
            f"first {equal[0].file}:{equal[0].line}."
        )
    scored = np.concatenate([text.tokens[text.first :] for text in texts])
    unknown = float((scored == scorer.learner.tokenizer.target.vocabulary.unk).mean())
    if unknown:
        yield f"{unknown:.2%} of the tokens are unknown to {path}."


def score_items(
    scorer: TextScorer,
    items: Sequence[Item],
    texts: Sequence[EncodedText],
    progress: Progress,
    world: World,
) -> FloatArray:
    """What `TextScorer.score` gives all options. Each rank computes some of the chunks."""
    found = torch.zeros(2, len(texts), dtype=torch.float64)
    for start, end, count in list(cut_chunks(items, texts))[world.rank :: world.size]:
        found[:, start:end] = torch.from_numpy(scorer.score(texts[start:end]))
        progress.advance(min(count * world.size, len(items) - progress.done))
    results: FloatArray = world.all_reduce(found).numpy()
    return results


def cut_chunks(
    items: Sequence[Item], texts: Sequence[EncodedText]
) -> Iterator[tuple[int, int, int]]:
    """First and last text, and number of items, of chunks of whole items, at least one each."""
    start = end = count = tokens = 0
    for item in items:
        group = texts[end : end + len(item.options)]
        size = sum(len(text.tokens) * text.size for text in group)
        if count and (count == ITEMS_PER_CHUNK or tokens + size > TOKENS_PER_CHUNK):
            yield start, end, count
            start, count, tokens = end, 0, 0
        end, count, tokens = end + len(group), count + 1, tokens + size
    yield start, end, count
