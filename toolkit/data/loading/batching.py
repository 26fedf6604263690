"""Batches of examples: their source, and the micro-batches by seed, epoch and data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, fields, is_dataclass
from fractions import Fraction
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from toolkit.common.arrays import FloatArray, IntArray, mix
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import sha256
from toolkit.config.declared import LATER

BUCKETS_PER_DOUBLING = 16
DEFAULT_BATCH_SIZE = 32
EXAMPLES, BATCHES, LENGTHS = range(3)  # what is shuffled: each has its own random stream
OPEN_BATCHES = 4
"""Batches that a sentence may still join while others are filled."""


class BatchShape(NamedTuple):
    """What all filled batches of a loader have in common."""

    sentences: int
    """Rows, those of filler included."""
    length: int
    """Tokens of a row, padding included."""
    tokens: int
    """Tokens without padding, those of filler included."""


class BatchPlan(NamedTuple):
    """The micro-batches of one epoch."""

    ids: IntArray
    """Examples, batch after batch, as `starts` divides them."""
    starts: IntArray
    """Start of each batch in `ids`, and at the end the number of ids."""
    order: IntArray

    def __len__(self) -> int:
        return len(self.order)

    def batch(self, index: int) -> IntArray:
        """The examples of the micro-batch that is served at this index."""
        batch = self.order[index]
        return self.ids[self.starts[batch] : self.starts[batch + 1]]


class Curriculum(NamedTuple):
    """Epochs whose batches are sorted from easy to difficult examples."""

    difficulty: FloatArray
    epochs: int
    """Number of these epochs, from the first one."""


class BatchPlanner:
    """Micro-batches of examples of similar length, bounded by padded tokens and by size.

    Examples are sorted by length bucket and cut into batches. Which example of a bucket falls
    where, and the order of the batches, are drawn again every epoch. The cuts depend only on the
    buckets' sizes, so every epoch has the same number of micro-batches.

    With `fills`, batches have examples of all lengths, with `max_tokens` tokens or a few less: in a
    random order, each length joins the first open batch that has room. This is done once.

    With a `curriculum`, examples of a bucket are sorted by difficulty in its epochs, and batches by
    the mean of theirs; equal ones are in a random order.
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
        fills: bool = False,
        curriculum: Curriculum | None = None,
    ) -> None:
        if len(lengths) == 0:
            raise ToolkitError("there are no examples. Choose another split or other data.")
        if max_tokens is None and batch_size is None:
            batch_size = DEFAULT_BATCH_SIZE
        if max_tokens is not None and (longest := int(lengths.max())) > max_tokens:
            raise ToolkitError(
                f"max_tokens must be at least the length of the longest example, but is "
                f"{max_tokens} and example {int(lengths.argmax())} has {longest} tokens. Raise "
                f"--max-tokens, or lower --tokens-per-sample."
            )
        self._seed = int(mix(seed, int(compute_fingerprint(fingerprint)[:16], 16)))
        bucket, bucket_lengths = _to_buckets(lengths, exact=fills)
        self._copies = WeightedCopies(bucket, corpus_weights) if corpus_weights else None
        self._bucket = self._copies.bucket if self._copies else bucket
        self._curriculum, self._example_bucket = curriculum, bucket
        sizes = self._copies.sizes if self._copies else np.bincount(bucket)
        rising = np.repeat(bucket_lengths, sizes)
        self.shape: BatchShape | None = None
        """Of all batches, if they are filled."""
        self.filler = 0.0
        """Fraction of the tokens that is filler."""
        self._slots: IntArray | None = None
        """For each place in the filled batches, its place among the examples by rising length."""
        if fills:
            assert max_tokens is not None, "DataConfig requires it"
            self._fill_batches(rising, max_tokens)
        else:
            self._starts = _cut_batches(rising, max_tokens, batch_size)

    def _fill_batches(self, rising: IntArray, budget: int) -> None:
        """Assign the lengths to batches, in a random order."""
        order = _permutation(len(rising), int(mix(self._seed, LENGTHS)))
        batch = np.empty_like(rising)
        batch[order] = _first_fit(rising[order].tolist(), budget)
        sizes, tokens = np.bincount(batch), np.bincount(batch, weights=rising).astype(np.int64)
        longest = int(rising[-1])
        rows = int((sizes - (tokens - budget) // longest).max())
        self._slots, self._starts = np.argsort(batch, kind="stable"), np.append(0, sizes.cumsum())
        self.shape = BatchShape(rows, longest, budget)
        self.filler = 1 - float(tokens.sum()) / (budget * len(sizes))

    def __len__(self) -> int:
        return len(self._starts) - 1

    def epoch(self, epoch: int) -> BatchPlan:
        """The micro-batches of a training epoch."""
        shuffled = _permutation(len(self._bucket), int(mix(self._seed, epoch, EXAMPLES)))
        ids = shuffled[np.argsort(self._bucket[shuffled], kind="stable")]
        if self._copies:
            ids = self._copies.select_for_epoch(ids)
        if self._slots is not None:
            ids = ids[self._slots]
        order = _permutation(len(self), int(mix(self._seed, epoch, BATCHES)))
        if self._curriculum and epoch <= self._curriculum.epochs:
            examples, starts = ids % len(self._example_bucket), self._starts[:-1]
            difficulty = self._curriculum.difficulty[examples]
            rising = np.lexsort((difficulty, self._example_bucket[examples]))
            ids, sums = ids[rising], np.add.reduceat(difficulty[rising], starts)
            means = sums / np.diff(self._starts)
            order = order[np.argsort(means[order], kind="stable")]
        return BatchPlan(ids, self._starts, order)

    def in_order(self) -> BatchPlan:
        """The micro-batches of an evaluation: shortest examples first."""
        assert self._copies is None and self._slots is None, "an evaluation sees each example once"
        ids = np.argsort(self._bucket, kind="stable")
        return BatchPlan(ids, self._starts, np.arange(len(self)))


def compute_fingerprint(*parts: object) -> str:
    """sha256 of the parts' values, 64 hexadecimal digits.

    Of a configuration the values count and not the names of its fields: this seeds the order of
    batches, which stays the same when an option is renamed, or added as a LATER one.
    """
    values = tuple(
        option_values(part) if is_dataclass(part) and not isinstance(part, type) else part
        for part in parts
    )
    return sha256(repr(values))


def option_values(config: Any) -> tuple[object, ...]:
    """The values of a configuration, without LATER options that have their default."""
    pairs = zip(fields(config), astuple(config), strict=True)
    return tuple(it for of, it in pairs if it != of.default or not LATER.keys() & of.metadata)


def _to_buckets(lengths: IntArray, *, exact: bool) -> tuple[npt.NDArray[np.uint16], IntArray]:
    """Each example's bucket, a sixteenth of a doubling wide, or with `exact` a single length; and
    each bucket's longest length.
    """
    counts = np.bincount(lengths)
    present = np.flatnonzero(counts)
    scale = np.floor(np.log2(np.maximum(present, 1)) * BUCKETS_PER_DOUBLING)
    scale = present if exact else scale
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


def _first_fit(lengths: Sequence[int], budget: int) -> list[int]:
    """The batch of each sentence: the first of the open ones with room for it, or a new one."""
    room, batches = [budget], list[int]()
    for length in lengths:
        opened = range(max(0, len(room) - OPEN_BATCHES), len(room))
        batch = next((it for it in opened if room[it] >= length), len(room))
        if batch == len(room):
            room.append(budget)
        room[batch] -= length
        batches.append(batch)
    return batches


Batch = TypeVar("Batch")
Batch_co = TypeVar("Batch_co", covariant=True)


@runtime_checkable
class BatchSource(Protocol[Batch_co]):
    """Examples of a split; the batch planner reads their lengths, the workers collate them."""

    lengths: IntArray
    """Tokens of each example, special tokens included."""
    fingerprint: str
    """Changes when the examples do: data, vocabulary and the options that shape them."""

    def collate(self, ids: IntArray, epoch: int | float | None) -> Batch_co:
        """One micro-batch of these examples. With epoch None, for evaluation, always the same one.

        Otherwise random choices depend on the whole part of the epoch, and values that change
        during the run on its fraction too. Ids from len(lengths) on are further copies of example
        id % len(lengths), with other random draws. Without ids: the batch of an idle rank, whose
        weights, sentences, tokens and loss are zero.
        """
        ...


@runtime_checkable
class FillableSource(BatchSource[Batch], Protocol[Batch]):
    """Examples whose micro-batches can all have one shape."""

    def fill(self, batch: Batch, shape: BatchShape) -> Batch:
        """A micro-batch with rows of filler, of which no loss and no number of examples knows."""
        ...


class FilledSource(Generic[Batch]):
    """Examples of which micro-batches of one shape are made."""

    def __init__(self, examples: FillableSource[Batch], shape: BatchShape) -> None:
        self.examples, self.shape = examples, shape
        self.lengths, self.fingerprint = examples.lengths, examples.fingerprint

    def collate(self, ids: IntArray, epoch: int | float | None) -> Batch:
        return self.examples.fill(self.examples.collate(ids, epoch), self.shape)


MAX_DENOMINATOR = 10**6  # weights are rounded to fractions with denominators up to this


class CorpusWeights:
    """An epoch sees floor(w n + 1/2) of a corpus's n examples: all floor(w) times, some once more.

    These are drawn again every epoch, but from each length bucket b, of n_b examples, always the
    same number: the largest remainders of (w - floor(w)) n_b (Hamilton's method). Copy k of example
    j has the id j + k N, where N is the number of all examples.
    """

    def __init__(self, counts: Sequence[int], weights: Sequence[float]) -> None:
        self.counts = list(counts)
        self.weights = [Fraction(repr(w)).limit_denominator(MAX_DENOMINATOR) for w in weights]
        self.per_epoch = [
            int(w * n + Fraction(1, 2)) for w, n in zip(self.weights, self.counts, strict=True)
        ]
        if not all(self.per_epoch):
            corpus = self.per_epoch.index(0)
            raise ToolkitError(
                f"data.weights must give every corpus at least one example per epoch, but "
                f"{weights[corpus]} x {self.counts[corpus]} examples of corpus {corpus + 1} is "
                f"less. Raise its weight, or leave the corpus out."
            )
        self.ends = np.cumsum(self.counts)

    def bucket_quotas(self, corpus: int, in_bucket: IntArray) -> IntArray:
        """Number of a corpus's examples in each bucket that an epoch sees once more."""
        rest = self.weights[corpus] % 1
        wanted = self.per_epoch[corpus] - int(self.weights[corpus]) * self.counts[corpus]
        quotas, remainder = np.divmod(in_bucket * rest.numerator, rest.denominator)
        rounded_up = np.argsort(-remainder, kind="stable")[: wanted - int(quotas.sum())]
        quotas[rounded_up] += 1
        return quotas

    def list_copies(self, ranges: Sequence[tuple[int, int]]) -> IntArray:
        """Ids of the copies in each corpus's range, corpus by corpus."""
        total, starts = int(self.ends[-1]), self.ends - self.counts
        copies = [
            copy * total + np.arange(start, end)
            for (first, last), start, end in zip(ranges, starts, self.ends, strict=True)
            for copy in range(first, last)
        ]
        return np.concatenate([np.zeros(0, np.int64), *copies])


class WeightedCopies:
    """The ids of weighted corpora, each in the length bucket of its example."""

    def __init__(self, bucket: npt.NDArray[np.uint16], weights: CorpusWeights) -> None:
        whole = [(0, int(w)) for w in weights.weights]
        rest = [(int(w), -(-w.numerator // w.denominator)) for w in weights.weights]
        every_epoch, some_epochs = weights.list_copies(whole), weights.list_copies(rest)
        self._ids = np.concatenate([every_epoch, some_epochs])
        self.bucket = bucket[self._ids % len(bucket)]
        """Of every copy; those that an epoch may leave out come last."""
        self._every_epoch = len(every_epoch)
        self._corpus = np.searchsorted(weights.ends, some_epochs % weights.ends[-1], side="right")
        buckets = int(bucket.max()) + 1
        self.sizes = np.bincount(self.bucket[: self._every_epoch], minlength=buckets)
        """Copies in each bucket that an epoch sees."""
        self._quotas: dict[int, IntArray] = {}
        for corpus in np.unique(self._corpus).tolist():
            of_corpus = self.bucket[self._every_epoch :][self._corpus == corpus]
            in_bucket = np.bincount(of_corpus, minlength=buckets)
            self._quotas[corpus] = weights.bucket_quotas(corpus, in_bucket)
            self.sizes = self.sizes + self._quotas[corpus]

    def select_for_epoch(self, order: IntArray) -> IntArray:
        """An epoch's ids, from copies sorted by bucket and shuffled within each."""
        kept = np.ones(len(order), bool)
        optional = np.flatnonzero(order >= self._every_epoch)
        corpora = self._corpus[order[optional] - self._every_epoch]
        for corpus, quota in self._quotas.items():
            of_corpus = optional[corpora == corpus]
            bucket = self.bucket[order[of_corpus]]
            rank = np.arange(len(of_corpus)) - np.searchsorted(bucket, bucket, side="left")
            kept[of_corpus] = rank < quota[bucket]
        return self._ids[order[kept]]
