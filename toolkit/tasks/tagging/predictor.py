"""Tags of the task pos_tagging for raw sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from toolkit.criteria import Prediction
from toolkit.data.formats.tagging.split import TaggedWords
from toolkit.data.formats.tagging.tokenizer import TaggingTokenizer
from toolkit.tasks.predictor import ItemBatches, Predictor
from toolkit.tasks.raw_items import InputField, Values
from toolkit.tasks.tagging.config import ResolvedTaggingConfig
from toolkit.tasks.tagging.examples import OBJECTIVE, TaggingBatch, TaggingExamples


class TagPrediction(NamedTuple):
    """The most probable tag of each word."""

    words: list[str]
    tags: list[str]
    probabilities: list[float]
    """Probability of each tag."""

    def to_row(self) -> tuple[str, ...]:
        """The tags, separated by spaces."""
        return (" ".join(self.tags),)


class TagPredictor(Predictor[list[str], TagPrediction]):
    """Reads the words of a sentence. Long sentences are tagged in chunks, never truncated."""

    fields = (InputField(("words", "tokens", "text", "sentence"), "words"),)
    columns = ("tags",)

    def __init__(self, config: ResolvedTaggingConfig, tokenizer: TaggingTokenizer) -> None:
        self.config, self.tokenizer = config, tokenizer

    def parse(self, values: Values) -> list[str]:
        words: list[str] = values["words"]
        return words

    def start(self, items: Sequence[list[str]]) -> TaggedItems:
        return TaggedItems(self.config, self.tokenizer, items)


class TaggedItems(ItemBatches[TaggingBatch, TagPrediction]):
    """Raw sentences as examples, and their tags."""

    def __init__(
        self,
        config: ResolvedTaggingConfig,
        tokenizer: TaggingTokenizer,
        items: Sequence[list[str]],
    ) -> None:
        self._items, self._tags = items, tokenizer.tables.tags
        words = TaggedWords.from_words(tokenizer, items)
        self.examples = TaggingExamples(config, words, row_multiple=1)
        self._labels = np.zeros(len(words.types), np.int64)
        self._probabilities = np.zeros(len(words.types))

    def update(self, batch: TaggingBatch, predictions: Mapping[str, Prediction]) -> None:
        logits, _ = predictions[OBJECTIVE]
        ids, labels = batch.word_ids.cpu().numpy(), logits.argmax(-1, keepdim=True)
        probabilities = logits.double().softmax(-1).gather(-1, labels)
        self._labels[ids] = labels[:, 0].cpu().numpy()
        self._probabilities[ids] = probabilities[:, 0].cpu().numpy()

    def results(self) -> list[TagPrediction]:
        tags = iter([self._tags[label] for label in self._labels.tolist()])
        probabilities = iter(self._probabilities.tolist())
        return [
            TagPrediction(
                words, list(islice(tags, len(words))), list(islice(probabilities, len(words)))
            )
            for words in self._items
        ]
