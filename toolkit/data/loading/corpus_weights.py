"""Corpora in proportion: how often an epoch meets the examples of each."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from toolkit.common.errors import ToolkitError

Numbers = npt.NDArray[np.int64]
FINEST = 10**6  # weights are taken as fractions with denominators up to this


class CorpusWeights:
    """An epoch meets floor(w n + 1/2) of a corpus's n examples: floor(w) times all, the rest once.

    Which ones come once more is drawn anew every epoch, but from each length bucket b, of n_b
    examples, the same number: the largest remainders of (w - floor(w)) n_b (Hamilton's method).
    So the number of micro-batches stays the same.

    Copy k of example j has the id j + k N, N being the number of all examples; copy 0 is the
    example itself, so equal weights of 1 change nothing.
    """

    def __init__(self, counts: Sequence[int], weights: Sequence[float]) -> None:
        self.counts = list(counts)
        self.weights = [Fraction(repr(w)).limit_denominator(FINEST) for w in weights]
        self.per_epoch = [
            int(w * n + Fraction(1, 2)) for w, n in zip(self.weights, self.counts, strict=True)
        ]
        if not all(self.per_epoch):
            least = self.per_epoch.index(0)
            raise ToolkitError(
                f"data.weights must give every corpus at least one example an epoch, but "
                f"{weights[least]} x {self.counts[least]} examples of corpus {least + 1} is less. "
                f"Raise its weight, or leave the corpus out."
            )
        self._ends = np.cumsum(self.counts)

    def every_epoch_ids(self) -> Numbers:
        """Ids that every epoch meets."""
        return self._copies([(0, int(w)) for w in self.weights])

    def some_epochs_ids(self) -> Numbers:
        """Ids of which every epoch meets a part, corpus by corpus."""
        return self._copies([(int(w), -(-w.numerator // w.denominator)) for w in self.weights])

    def corpus_of(self, ids: Numbers) -> Numbers:
        """Which corpus each id is of, from 0 on."""
        return np.searchsorted(self._ends, ids % self._ends[-1], side="right")

    def bucket_quotas(self, corpus: int, in_bucket: Numbers) -> Numbers:
        """How many of a corpus's examples in each bucket come once more in an epoch."""
        rest = self.weights[corpus] % 1
        wanted = self.per_epoch[corpus] - int(self.weights[corpus]) * self.counts[corpus]
        whole, remainder = np.divmod(in_bucket * rest.numerator, rest.denominator)
        more = np.argsort(-remainder, kind="stable")[: wanted - int(whole.sum())]
        whole[more] += 1
        return whole

    def _copies(self, spans: Sequence[tuple[int, int]]) -> Numbers:
        total, begins = int(self._ends[-1]), self._ends - self.counts
        found = [
            copy * total + np.arange(begin, end)
            for (first, last), begin, end in zip(spans, begins, self._ends, strict=True)
            for copy in range(first, last)
        ]
        return np.concatenate([np.zeros(0, np.int64), *found])


class WeightedCopies:
    """The ids of a mixture, each in the length bucket of its example."""

    def __init__(self, bucket: npt.NDArray[np.uint16], mixture: CorpusWeights) -> None:
        always, sometimes = mixture.every_epoch_ids(), mixture.some_epochs_ids()
        self._ids = np.concatenate([always, sometimes])
        self.bucket = bucket[self._ids % len(bucket)]
        """Of every copy; numbered through, those that may be missing in an epoch behind."""
        self._always = len(always)
        self._corpus = mixture.corpus_of(sometimes)
        buckets = int(bucket.max()) + 1
        self.sizes = np.bincount(self.bucket[: self._always], minlength=buckets)
        """Copies in each bucket that an epoch meets."""
        self._quotas: dict[int, Numbers] = {}
        for corpus in np.unique(self._corpus).tolist():
            found = self.bucket[self._always :][self._corpus == corpus]
            self._quotas[corpus] = mixture.bucket_quotas(
                corpus, np.bincount(found, minlength=buckets)
            )
            self.sizes = self.sizes + self._quotas[corpus]

    def select_for_epoch(self, order: Numbers) -> Numbers:
        """Ids for an epoch, of copies ordered by bucket and shuffled within: the first of each."""
        kept = np.ones(len(order), bool)
        optional = np.flatnonzero(order >= self._always)
        corpora = self._corpus[order[optional] - self._always]
        for corpus, quota in self._quotas.items():
            mine = optional[corpora == corpus]
            bucket = self.bucket[order[mine]]
            rank = np.arange(len(mine)) - np.searchsorted(bucket, bucket, side="left")
            kept[mine] = rank < quota[bucket]
        return self._ids[order[kept]]
