"""Batches of examples: their source, and the micro-batches of an epoch.

These are a function of the seed, the epoch and the data.
"""

from __future__ import annotations

from dataclasses import astuple, is_dataclass
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from toolkit.common.arrays import IntArray, mix
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import sha256
from toolkit.data.loading.corpus_weights import CorpusWeights, WeightedCopies

BUCKETS_PER_DOUBLING = 16
DEFAULT_BATCH_SIZE = 32
EXAMPLES, BATCHES = range(2)  # what is shuffled: each has its own random stream


class BatchPlan(NamedTuple):
    """The micro-batches of one epoch."""

    ids: IntArray
    """Examples, batch after batch, as `starts` divides them."""
    starts: IntArray
    """Start of each batch in `ids`, and at the end the number of ids."""
    order: IntArray
    """The order in which batches are served."""

    def __len__(self) -> int:
        return len(self.order)

    def batch(self, index: int) -> IntArray:
        """The examples of the micro-batch that is served at this index."""
        batch = self.order[index]
        return self.ids[self.starts[batch] : self.starts[batch + 1]]


class BatchPlanner:
    """Micro-batches of examples of similar length, bounded by padded tokens and by size.

    Examples are sorted by length bucket and cut into batches. Which example of a bucket falls
    where, and the order of the batches, are drawn again every epoch. The cuts depend only on the
    buckets' sizes, so every epoch has the same number of micro-batches.
    """

    def __init__(
        self,
        lengths: IntArray,
        *,
        max_tokens: int | None,
        batch_size: int | None,
        seed: int,
        fingerprint: str,
        corpus_weights: CorpusWeights | None = None,
    ) -> None:
        if max_tokens is None and batch_size is None:
            batch_size = DEFAULT_BATCH_SIZE
        _check_lengths(lengths, max_tokens)
        self._seed = int(mix(seed, int(compute_fingerprint(fingerprint)[:16], 16)))
        bucket, longest = _to_buckets(lengths)
        self._copies = WeightedCopies(bucket, corpus_weights) if corpus_weights else None
        self._bucket = self._copies.bucket if self._copies else bucket
        sizes = self._copies.sizes if self._copies else np.bincount(bucket)
        self._starts = _cut_batches(np.repeat(longest, sizes), max_tokens, batch_size)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def epoch(self, epoch: int) -> BatchPlan:
        """The micro-batches of a training epoch."""
        shuffled = _permutation(len(self._bucket), int(mix(self._seed, epoch, EXAMPLES)))
        ids = shuffled[np.argsort(self._bucket[shuffled], kind="stable")]
        if self._copies:
            ids = self._copies.select_for_epoch(ids)
        order = _permutation(len(self), int(mix(self._seed, epoch, BATCHES)))
        return BatchPlan(ids, self._starts, order)

    def in_order(self) -> BatchPlan:
        """The micro-batches of an evaluation: shortest examples first."""
        assert self._copies is None, "an evaluation sees every example once"
        ids = np.argsort(self._bucket, kind="stable")
        return BatchPlan(ids, self._starts, np.arange(len(self)))


def compute_fingerprint(*parts: object) -> str:
    """sha256 of the parts' values, 64 hexadecimal digits.

    Of a configuration the values count and not the names of its fields: this seeds the order of
    batches, which stays the same when an option is renamed.
    """
    values = tuple(
        astuple(part) if is_dataclass(part) and not isinstance(part, type) else part
        for part in parts
    )
    return sha256(repr(values))


def _check_lengths(lengths: IntArray, max_tokens: int | None) -> None:
    if len(lengths) == 0:
        raise ToolkitError(
            "there are no examples to make batches of. Choose another split or other data."
        )
    longest = int(lengths.max())
    if max_tokens is not None and longest > max_tokens:
        raise ToolkitError(
            f"max_tokens must be at least the length of the longest example, but is {max_tokens} "
            f"and example {int(lengths.argmax())} has {longest} tokens. Raise --max-tokens, or "
            f"lower --tokens-per-sample."
        )


def _to_buckets(lengths: IntArray) -> tuple[npt.NDArray[np.uint16], IntArray]:
    """Each example's bucket, a sixteenth of a doubling wide; and each bucket's longest length."""
    counts = np.bincount(lengths)
    present = np.flatnonzero(counts)
    scale = np.floor(np.log2(np.maximum(present, 1)) * BUCKETS_PER_DOUBLING)
    first = np.flatnonzero(np.diff(scale, prepend=-1.0))  # of each bucket, in `present`
    longest = present[np.append(first[1:], len(present)) - 1]
    bucket_of = np.zeros(len(counts), np.uint16)
    bucket_of[present] = np.searchsorted(first, np.arange(len(present)), side="right") - 1
    return bucket_of[lengths], longest


def _permutation(count: int, seed: int) -> IntArray:
    """0 .. count - 1 shuffled: random high bits and the number as low bits, sorted as integers."""
    bits = max(1, (count - 1).bit_length())
    low = np.uint64((1 << bits) - 1)
    numbers = np.arange(count, dtype=np.uint64)
    keys = np.sort((mix(seed, numbers) & ~low) | numbers)
    return (keys & low).astype(np.int64)


def _cut_batches(lengths: IntArray, max_tokens: int | None, batch_size: int | None) -> IntArray:
    """Runs from the front with size <= batch_size and size x longest <= max_tokens.

    Lengths rise, so a run's longest is its last. A run first takes as many as its first length
    allows; while these are too many, as many as the length at the end allows.
    """
    count = len(lengths)
    if max_tokens is None:
        assert batch_size is not None, "one of the two bounds is always set"
        return np.append(np.arange(0, count, batch_size), count)
    max_size = count if batch_size is None else batch_size
    starts, start = [0], 0
    while start < count:
        size = min(max_size, count - start, max_tokens // int(lengths[start]))
        while size * int(lengths[start + size - 1]) > max_tokens:
            size = max_tokens // int(lengths[start + size - 1])
        start += size
        starts.append(start)
    return np.array(starts)


Batch = TypeVar("Batch")
Batch_co = TypeVar("Batch_co", covariant=True)


@runtime_checkable
class BatchSource(Protocol[Batch_co]):
    """Examples of a split; the batch planner reads their lengths, the workers collate them."""

    lengths: IntArray
    """Tokens of each example, special tokens included."""
    fingerprint: str
    """Changes when the examples do: data, vocabulary and the options that shape them."""

    def collate(self, ids: IntArray, epoch: int | None) -> Batch_co:
        """One micro-batch of these examples. With epoch None, for evaluation, always the same one.

        Ids from len(lengths) on are further copies of example id % len(lengths): the same data
        with other random draws.

        Without ids: the batch of an idle rank. It passes through the model like any other, but its
        weights, sentences, tokens and loss are zero.
        """
        ...
