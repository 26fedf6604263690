"""Scores of sentence pairs, shared by the ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from toolkit.common.arrays import FloatArray
from toolkit.data.text_files import raise_at_line
from toolkit.distributed import World
from toolkit.reporting.progress import Progress
from toolkit.tasks.minimal_pairs.pairs import MinimalPair
from toolkit.tasks.minimal_pairs.scorer import EncodedSentence, SentenceScorer

PAIRS_PER_CHUNK = 256
"""Pairs whose inputs exist at a time; equal inputs among them are computed once."""
TOKENS_PER_CHUNK = 1 << 22
"""Limit of the tokens of these inputs: a sentence of T tokens has up to T inputs of this length."""


def encode_pairs(
    scorer: SentenceScorer, pairs: Sequence[MinimalPair], path: str
) -> list[EncodedSentence]:
    """The good and the bad sentence of each pair in turn; raises if one cannot be read."""
    sentences = scorer.encode([text for pair in pairs for text in pair.sentences])
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
    both = zip(pairs, sentences[::2], sentences[1::2], strict=True)
    equal = [
        pair
        for pair, good, bad in both
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


def check_finite(pairs: Sequence[MinimalPair], scores: FloatArray, precision: str) -> None:
    """Raise a ToolkitError that names the first pair without a finite score."""
    for number in np.flatnonzero(~np.isfinite(scores).all(1))[:1]:
        raise_at_line(
            pairs[number].file,
            pairs[number].line,
            f"scores must be finite, but in {precision} they are {scores[number, 0]} and "
            f"{scores[number, 1]}. Choose --precision fp32; if they are the same there, the "
            f"checkpoint is broken.",
        )
