"""Which examples make which micro-batch, as a function of the seed, the epoch and the data."""

from __future__ import annotations

import hashlib
from dataclasses import astuple, is_dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.common.errors import ToolkitError
from toolkit.common.random_hash import mix
from toolkit.data.loading.corpus_weights import CorpusWeights, WeightedCopies

Numbers = npt.NDArray[np.int64]
BUCKETS_PER_DOUBLING = 16
EXAMPLES, BATCHES = range(2)  # what is shuffled: draws that must not share their randomness


class BatchPlan(NamedTuple):
    """The micro-batches of one epoch, in order."""

    ids: Numbers
    """Examples, batch after batch as they lie in `begins`."""
    starts: Numbers
    """Where each batch begins in `ids`, and at the end where the last one ends."""
    order: Numbers
    """Batches in the order in which they are served."""

    def __len__(self) -> int:
        return len(self.order)

    def batch(self, place: int) -> Numbers:
        """The examples of the micro-batch that is served at this place."""
        batch = self.order[place]
        return self.ids[self.starts[batch] : self.starts[batch + 1]]


class BatchPlanner:
    """Micro-batches of examples of about equal length, bounded by padded tokens and by number.

    The examples are sorted by length bucket and cut; which example of a bucket falls where, and
    the order of the batches, are drawn anew every epoch. The cuts only depend on the buckets'
    sizes, so that every epoch has the same number of micro-batches.
    """

    def __init__(
        self,
        lengths: Numbers,
        *,
        max_tokens: int | None,
        batch_size: int | None,
        seed: int,
        fingerprint: str,
        corpus_weights: CorpusWeights | None = None,
    ) -> None:
        if max_tokens is None and batch_size is None:
            batch_size = 32
        _refuse_long(lengths, max_tokens)
        self._seed = int(mix(seed, int(compute_fingerprint(fingerprint)[:16], 16)))
        bucket, tops = _buckets(lengths)
        self._copies = WeightedCopies(bucket, corpus_weights) if corpus_weights else None
        self._bucket = self._copies.bucket if self._copies else bucket
        sizes = self._copies.sizes if self._copies else np.bincount(bucket)
        self._begins = _cut(np.repeat(tops, sizes), max_tokens, batch_size)

    def __len__(self) -> int:
        return len(self._begins) - 1

    def epoch(self, epoch: int) -> BatchPlan:
        """The micro-batches of a training epoch."""
        shuffled = _permutation(len(self._bucket), int(mix(self._seed, epoch, EXAMPLES)))
        ids = shuffled[np.argsort(self._bucket[shuffled], kind="stable")]
        if self._copies:
            ids = self._copies.select_for_epoch(ids)
        return BatchPlan(
            ids, self._begins, _permutation(len(self), int(mix(self._seed, epoch, BATCHES)))
        )

    def in_order(self) -> BatchPlan:
        """The micro-batches of an evaluation: shortest examples first."""
        assert self._copies is None, "an evaluation meets every example once"
        ids = np.argsort(self._bucket, kind="stable")
        return BatchPlan(ids, self._begins, np.arange(len(self)))


def compute_fingerprint(*parts: object) -> str:
    """sha256 of the parts' values, 64 hexadecimal digits.

    Of a configuration the values of its fields count and not their names, so that the order of
    batches, which this seeds, remains when an option is renamed.
    """
    values = tuple(
        astuple(part) if is_dataclass(part) and not isinstance(part, type) else part
        for part in parts
    )
    return hashlib.sha256(repr(values).encode()).hexdigest()


def _refuse_long(lengths: Numbers, max_tokens: int | None) -> None:
    if len(lengths) == 0:
        raise ToolkitError("there must be examples to make batches of, but there are none.")
    longest = int(lengths.max())
    if max_tokens is not None and longest > max_tokens:
        raise ToolkitError(
            f"max_tokens must be at least the length of the longest example, but is {max_tokens} "
            f"and example {int(lengths.argmax())} has {longest} tokens. Raise --max-tokens, or "
            f"lower --tokens-per-sample."
        )


def _buckets(lengths: Numbers) -> tuple[npt.NDArray[np.uint16], Numbers]:
    """Each example's bucket, a sixteenth of a doubling wide; and each bucket's longest length."""
    counts = np.bincount(lengths)
    present = np.flatnonzero(counts)
    wide = np.floor(np.log2(np.maximum(present, 1)) * BUCKETS_PER_DOUBLING)
    first = np.flatnonzero(np.diff(wide, prepend=-1.0))  # of each bucket, in `present`
    tops = present[np.append(first[1:], len(present)) - 1]
    bucket_of = np.zeros(len(counts), np.uint16)
    bucket_of[present] = np.searchsorted(first, np.arange(len(present)), side="right") - 1
    return bucket_of[lengths], tops


def _permutation(count: int, seed: int) -> Numbers:
    """0 .. count - 1 shuffled: random bits above, the number below, sorted as one integer."""
    bits = max(1, (count - 1).bit_length())
    low = np.uint64((1 << bits) - 1)
    numbers = np.arange(count, dtype=np.uint64)
    keys = np.sort((mix(seed, numbers) & ~low) | numbers)
    return (keys & low).astype(np.int64)


def _cut(costs: Numbers, max_tokens: int | None, batch_size: int | None) -> Numbers:
    """Runs from the front with size <= batch_size and size x largest cost <= max_tokens.

    The costs rise, so a run's largest is its last. As many as the first one's cost allows are
    looked at; where that is too many, as many are taken as the last one's cost there allows.
    """
    count = len(costs)
    if max_tokens is None:
        assert batch_size is not None, "one of the two bounds is always set"
        return np.append(np.arange(0, count, batch_size), count)
    most = count if batch_size is None else batch_size
    begins, begin = [0], 0
    while begin < count:
        size = min(most, count - begin, max_tokens // int(costs[begin]))
        while size * int(costs[begin + size - 1]) > max_tokens:
            size = max_tokens // int(costs[begin + size - 1])
        begin += size
        begins.append(begin)
    return np.array(begins)
