"""The interface between a task's examples and the loading of batches."""

from __future__ import annotations

from typing import Protocol, TypeVar, runtime_checkable

from toolkit.common.arrays import IntArray

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
