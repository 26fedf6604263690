"""Corpus weights: how often an epoch sees the examples of each corpus."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError

MAX_DENOMINATOR = 10**6  # weights are rounded to fractions with denominators up to this


class CorpusWeights:
    """An epoch sees floor(w n + 1/2) of a corpus's n examples: all floor(w) times, some once more.

    These are drawn again every epoch, but from each length bucket b, of n_b examples, always the
    same number: the largest remainders of (w - floor(w)) n_b (Hamilton's method). So the number of
    micro-batches stays the same.

    Copy k of example j has the id j + k N, where N is the number of all examples. Copy 0 is the
    example itself, so weights of 1 change nothing.
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
        self._ends = np.cumsum(self.counts)

    def every_epoch_ids(self) -> IntArray:
        """Ids that every epoch sees."""
        return self._list_copies([(0, int(w)) for w in self.weights])

    def some_epochs_ids(self) -> IntArray:
        """Ids of which every epoch sees a part, corpus by corpus."""
        return self._list_copies([(int(w), -(-w.numerator // w.denominator)) for w in self.weights])

    def corpus_of(self, ids: IntArray) -> IntArray:
        """The corpus of each id, from 0 on."""
        return np.searchsorted(self._ends, ids % self._ends[-1], side="right")

    def bucket_quotas(self, corpus: int, in_bucket: IntArray) -> IntArray:
        """Number of a corpus's examples in each bucket that an epoch sees once more."""
        rest = self.weights[corpus] % 1
        wanted = self.per_epoch[corpus] - int(self.weights[corpus]) * self.counts[corpus]
        quotas, remainder = np.divmod(in_bucket * rest.numerator, rest.denominator)
        rounded_up = np.argsort(-remainder, kind="stable")[: wanted - int(quotas.sum())]
        quotas[rounded_up] += 1
        return quotas

    def _list_copies(self, ranges: Sequence[tuple[int, int]]) -> IntArray:
        total, starts = int(self._ends[-1]), self._ends - self.counts
        copies = [
            copy * total + np.arange(start, end)
            for (first, last), start, end in zip(ranges, starts, self._ends, strict=True)
            for copy in range(first, last)
        ]
        return np.concatenate([np.zeros(0, np.int64), *copies])


class WeightedCopies:
    """The ids of weighted corpora, each in the length bucket of its example."""

    def __init__(self, bucket: npt.NDArray[np.uint16], weights: CorpusWeights) -> None:
        every_epoch, some_epochs = weights.every_epoch_ids(), weights.some_epochs_ids()
        self._ids = np.concatenate([every_epoch, some_epochs])
        self.bucket = bucket[self._ids % len(bucket)]
        """Of every copy; those that an epoch may leave out come last."""
        self._every_epoch = len(every_epoch)
        self._corpus = weights.corpus_of(some_epochs)
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
