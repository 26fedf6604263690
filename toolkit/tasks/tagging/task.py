"""Part-of-speech tagging: a label for every word (Dufter et al. 2020, section 2.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from toolkit.common.registry import register_task
from toolkit.criteria import Classes, Prediction
from toolkit.data.formats.tagging.split import TaggedSplit, TaggedWords
from toolkit.data.loading.examples import Examples
from toolkit.models.encoder import select_states
from toolkit.models.interface import Inputs, Sizes
from toolkit.tasks.tagging.config import PosTaggingConfig, resolve_tagging
from toolkit.tasks.tagging.examples import OBJECTIVE, TaggingBatch, TaggingExamples
from toolkit.tasks.tagging.predictions import TaggingCollector
from toolkit.tasks.task import Metric, Ratio, Task

CHUNKS_PER_BATCH = 32  # chunks that go through the encoder together


@register_task("pos_tagging", PosTaggingConfig())
class PosTagging(Task):
    """-log p(tag of word n | its sentence), p = softmax(W h_n + b), h_n of its first piece or all.

    Where the encoder reads whole words, h_n is the word's own state.
    """

    coefficients: Mapping[str, float] = {OBJECTIVE: 1.0}

    def __init__(self, c: PosTaggingConfig, encoder: Any, sizes: Sizes, make_encoder: Any) -> None:
        super().__init__()
        self.config = c
        self.head = nn.Linear(encoder.width, sizes.tags)
        nn.init.xavier_uniform_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @classmethod
    def resolve_for(cls, config: Any, arch: Any) -> Any:
        return resolve_tagging(config, arch)

    @classmethod
    def examples(
        cls, config: Any, folder: Any, split: str, *, seed: int, training: bool, fixed_shapes: bool
    ) -> Examples:
        return TaggingExamples(config, TaggedSplit(folder, split), fixed_shapes=fixed_shapes)

    def predict(self, encoder: Any, batch: TaggingBatch) -> dict[str, Prediction]:
        states = select_states(encoder, batch.inputs, batch.selected)  # (P, D)
        if batch.word_index is not None:
            states = mean_per_word(states, batch.word_index, len(batch.targets))  # (P, D) -> (N, D)
        return {OBJECTIVE: Classes(self.head(states), batch.targets)}

    def batch_metrics(
        self, predictions: Mapping[str, Prediction], batch: TaggingBatch
    ) -> dict[str, Metric]:
        """Share of right tags: of all words, of those out of vocabulary, of the ambiguous ones.

        A word whose tag training does not have is counted, and never right; one whose tag is not
        known is not counted.
        """
        logits, targets = predictions[OBJECTIVE]
        right = logits.argmax(-1) == targets
        groups = {
            "accuracy": batch.scored,
            "oov_accuracy": batch.oov,
            "ambiguous_accuracy": batch.ambiguous,
        }
        return {
            name: Ratio((right & group).sum().float(), group.sum().float())
            for name, group in groups.items()
        }

    def collector(self, examples: Examples) -> TaggingCollector:
        """Collects the tag of each word: for figures of each tag, and to be written."""
        assert isinstance(examples, TaggingExamples), "the examples are this task's own"
        assert isinstance(examples.split, TaggedSplit), "they are those of a folder"
        return TaggingCollector(examples.split)

    @torch.no_grad()
    def tag(
        self, encoder: Any, tokenizer: Any, sentences: Sequence[Sequence[str]]
    ) -> list[list[str]]:
        """The tag of every word of every sentence."""
        words = TaggedWords.from_words(tokenizer, sentences)
        examples = TaggingExamples(resolve_tagging(self.config, encoder), words, fixed_shapes=False)
        found = np.zeros(len(words.types), np.int64)
        device, order = self.head.weight.device, np.argsort(examples.lengths, kind="stable")
        for first in range(0, len(order), CHUNKS_PER_BATCH):
            batch = move_inputs(
                examples.collate(order[first : first + CHUNKS_PER_BATCH], None), device
            )
            logits, _ = self.predict(encoder, batch)[OBJECTIVE]
            found[batch.word_ids.cpu().numpy()] = logits.argmax(-1).cpu().numpy()
        tags = iter([tokenizer.tables.tags[label] for label in found])
        return [list(islice(tags, len(sentence))) for sentence in sentences]


def move_inputs(batch: TaggingBatch, device: torch.device) -> TaggingBatch:
    """What is predicted from, on the device."""
    parts: list[Any] = [None if part is None else part.to(device) for part in batch.inputs]
    owners = None if batch.word_index is None else batch.word_index.to(device)
    return batch._replace(
        inputs=Inputs(*parts), selected=batch.selected.to(device), word_index=owners
    )


def mean_per_word(states: Float[Tensor, "P D"], owners: Tensor, words: int) -> Float[Tensor, "N D"]:
    """The mean of each word's pieces."""
    sums = states.new_zeros(words, states.shape[1]).index_add(0, owners, states)
    counts = torch.bincount(owners, minlength=words).clamp(min=1)
    return sums / counts[:, None].to(sums.dtype)
