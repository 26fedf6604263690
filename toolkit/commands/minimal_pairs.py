"""toolkit-validate --task minimal_pairs: accuracy on pairs of sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from time import perf_counter

import numpy as np
import torch

from toolkit.common import json_files
from toolkit.common.arrays import FloatArray, IntArray
from toolkit.common.files import check_output, open_output, write_output
from toolkit.common.json_files import JsonObject
from toolkit.common.system import keep_freed_memory
from toolkit.config.commands.checkpoints import MINIMAL_PAIRS_TASK, MinimalPairsConfig
from toolkit.data.text_files import raise_at_line
from toolkit.distributed import World, launch
from toolkit.metrics.classification import compare_scores
from toolkit.optim.update import Precision, resolve_precision
from toolkit.reporting.console import Output, Progress
from toolkit.tasks.build import load_checkpoint
from toolkit.tasks.minimal_pairs.pairs import MinimalPair, make_tables, read_pairs, summarize_pairs
from toolkit.tasks.minimal_pairs.scorer import EncodedSentence, SentenceScorer

MAX_TOKENS = {"cpu": 4096}
"""Device -> default number of tokens per batch."""
MAX_TOKENS_GPU = 32_768
TOLERANCES = {"fp32": 1e-4, "tf32": 5e-3, "fp16": 5e-3, "bf16": 4e-2}
"""Precision -> largest difference of two scores that is a tie. Models that ignore word order score
permuted sentences equally up to rounding, by at most 2e-5 in fp32 and 3e-2 in bf16 on BLiMP."""


def evaluate_minimal_pairs(c: MinimalPairsConfig) -> list[JsonObject]:
    """The results of each checkpoint, which are printed and written; see `summarize_pairs`."""
    keep_freed_memory()
    with launch(c.device) as world, Output(c.json if world.is_main else None) as output:
        if c.predictions is not None:
            check_output("--predictions", c.predictions)
        pairs, remarks = read_pairs(c.files, c.limit)
        for remark in remarks if world.is_main else ():
            output.print_line(remark)
        records: list[JsonObject] = []
        path = c.results_path if world.is_main else None
        with nullcontext() if path is None else open_output("--results-path", path) as file:
            for checkpoint in c.path:
                records.append(evaluate_on_pairs(checkpoint, pairs, c, world, output))
                if file:
                    print(json_files.dumps(records[-1]), file=file, flush=True)
        return records


def evaluate_on_pairs(
    path: str, pairs: Sequence[MinimalPair], c: MinimalPairsConfig, world: World, output: Output
) -> JsonObject:
    """The results of one checkpoint."""
    learner = load_checkpoint(path, weights=c.weights).to(world.device)
    precision = Precision(resolve_precision(c.precision, world.device), world.device)
    max_tokens = c.max_tokens or MAX_TOKENS.get(world.device.type, MAX_TOKENS_GPU)
    scorer = SentenceScorer(learner, c.scoring, precision=precision, max_tokens=max_tokens)
    sentences = encode_pairs(scorer, pairs, path)
    if world.is_main and (remark := find_equal_tokens(pairs, sentences, path)):
        output.print_line(remark)
    started = perf_counter()
    with Progress(f"scoring with {path}", len(pairs), "pairs", quiet=not world.is_main) as progress:
        scores = score_pairs(scorer, sentences, progress, world)
    seconds = perf_counter() - started
    for number in np.flatnonzero(~np.isfinite(scores).all(1))[:1]:
        raise_at_line(
            pairs[number].file,
            pairs[number].line,
            f"scores must be finite, but in {precision.name} they are {scores[number, 0]} and "
            f"{scores[number, 1]}. Choose --precision fp32; if they are the same there, the "
            f"checkpoint is broken.",
        )
    tokens = np.array([len(it.tokens) for it in sentences]).reshape(-1, 2)
    tolerance = np.full(len(pairs), TOLERANCES[precision.name])
    if c.normalization == "tokens":
        scores, tolerance = scores / tokens, tolerance / tokens.min(1)
    results = compare_scores(scores[:, 0], scores[:, 1], tolerance)
    record = {
        **{"task": MINIMAL_PAIRS_TASK, "path": path},
        **{"scoring": scorer.scoring, "normalization": c.normalization},
        "precision": precision.name,
        **summarize_pairs(pairs, results),
    }
    if world.is_main:
        report(record, seconds, output, paradigms=c.paradigms)
        if c.predictions:
            write_scores(c.predictions, pairs, scores, tokens, results)
    return record


def report(record: JsonObject, seconds: float, output: Output, *, paradigms: bool) -> None:
    """Write the results as JSON, and print them with the speed."""
    output.write(MINIMAL_PAIRS_TASK, record)
    count = record["overall"]["pairs"]
    rate = count / max(seconds, 1e-9)
    output.write("end", {"pairs": count, "seconds": seconds, "pairs_per_second": rate})
    for table in make_tables(record, paradigms=paradigms):
        table.print(output.console)
    output.print_line(f"{count:,} pair{'s' * (count > 1)} in {seconds:.1f} s: {rate:,.1f} pairs/s.")


def write_scores(
    path: str,
    pairs: Sequence[MinimalPair],
    scores: FloatArray,
    tokens: IntArray,
    results: FloatArray,
) -> None:
    """One JSON line per pair."""
    lines = []
    for pair, score, count, result in zip(pairs, scores, tokens, results, strict=True):
        row = {
            "paradigm": pair.paradigm.name,
            "file": str(pair.file),
            "line": pair.line,
            "sentence_good": pair.good,
            "sentence_bad": pair.bad,
            "score_good": float(score[0]),
            "score_bad": float(score[1]),
            "tokens_good": int(count[0]),
            "tokens_bad": int(count[1]),
            "correct": float(result),
        }
        lines.append(json_files.dumps(row) + "\n")
    write_output("--predictions", path, "".join(lines))


PAIRS_PER_CHUNK = 256
"""Pairs whose inputs exist at a time; equal inputs among them are computed once."""
TOKENS_PER_CHUNK = 1 << 22
"""Limit of the tokens of these inputs: a sentence of T tokens has up to T inputs of this length."""


def encode_pairs(
    scorer: SentenceScorer, pairs: Sequence[MinimalPair], path: str
) -> list[EncodedSentence]:
    """The good and the bad sentence of each pair in turn; raises if one cannot be read."""
    sentences = scorer.encode([text for pair in pairs for text in (pair.good, pair.bad)])
    limit = scorer.max_length
    for index, sentence in enumerate(sentences):
        pair, length = pairs[index // 2], len(sentence.tokens)
        if limit is not None and length > limit:
            raise_at_line(
                pair.file,
                pair.line,
                f"a sentence must have at most {limit} tokens for {path}, but has {length}. "
                f"Shorten it, or remove the pair.",
            )
        if not length:
            raise_at_line(pair.file, pair.line, "a sentence has no tokens. Remove the pair.")
    return sentences


def find_equal_tokens(
    pairs: Sequence[MinimalPair], sentences: Sequence[EncodedSentence], path: str
) -> str:
    """A remark on different sentences that the tokenizer makes equal; empty if there are none."""
    equal = [
        pair
        for pair, good, bad in zip(pairs, sentences[::2], sentences[1::2], strict=True)
        if pair.good != pair.bad and np.array_equal(good.tokens, bad.tokens)
    ]
    if not equal:
        return ""
    subject = f"{len(equal):,} pairs have" if len(equal) > 1 else "1 pair has"
    return (
        f"{subject} the same tokens in both sentences for {path} and will be counted as ties; "
        f"first {equal[0].file}:{equal[0].line}."
    )


def score_pairs(
    scorer: SentenceScorer, sentences: Sequence[EncodedSentence], progress: Progress, world: World
) -> FloatArray:
    """The scores of all pairs, one row each: good, bad. Each rank computes some of the chunks."""
    scores = torch.zeros(len(sentences), dtype=torch.float64)
    chunks = list(cut_chunks([len(sentence.tokens) for sentence in sentences]))
    for start, end in chunks[world.rank :: world.size]:
        scores[start:end] = torch.from_numpy(scorer.score(sentences[start:end]))
        done = (end - start) // 2 * world.size
        progress.advance(min(done, len(sentences) // 2 - progress.done))
    found: FloatArray = world.all_reduce(scores).numpy()
    return found.reshape(-1, 2)


def cut_chunks(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last sentence of chunks of whole pairs, at least one each."""
    start = tokens = 0
    for index in range(0, len(lengths), 2):
        size = lengths[index] ** 2 + lengths[index + 1] ** 2
        full = index - start == 2 * PAIRS_PER_CHUNK or tokens + size > TOKENS_PER_CHUNK
        if full and index > start:
            yield start, index
            start, tokens = index, 0
        tokens += size
    yield start, len(lengths)
