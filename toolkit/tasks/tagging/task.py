"""A tag for every word (Dufter et al. 2020, section 2.6): parts of speech, or tags of spans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.common.registry import register_task
from toolkit.criteria import Classes, Prediction
from toolkit.data.formats.tagging.split import TaggedSplit
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.metrics.classification import SpanTags
from toolkit.models.heads import Features
from toolkit.models.interface import ArchConfig, EncoderModel, Inputs
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.tagging.examples import (
    OBJECTIVE,
    PosTaggingConfig,
    ResolvedTaggingConfig,
    TaggingBatch,
    TaggingExamples,
    resolve_tagging,
)
from toolkit.tasks.tagging.predictions import SpanResults, TaggingResults, TagPredictor
from toolkit.tasks.task import EncoderFactory, Metric, Ratio, Task


@register_task("pos_tagging", PosTaggingConfig())
class PosTagging(Task[PosTaggingConfig, TaggingExamples, TaggingBatch]):
    """-log p(tag of word n | its sentence), p = softmax(W h_n + b).

    h_n is the state of the word's first subword, or the mean of those of all its subwords. If the
    encoder reads whole words, h_n is the word's own state.
    """

    coefficients: Mapping[str, float] = {OBJECTIVE: 1.0}
    results_class: ClassVar[type[TaggingResults]] = TaggingResults

    def __init__(
        self, c: PosTaggingConfig, encoder: EncoderModel, make_encoder: EncoderFactory
    ) -> None:
        super().__init__()
        self.config = c
        self.features = Features(encoder, layer_mixing=c.layer_mixing)
        self.head = nn.Linear(encoder.width, make_encoder.sizes["tags"])
        nn.init.xavier_uniform_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @classmethod
    def resolve_for(
        cls, config: PosTaggingConfig, arch: ArchConfig | EncoderModel
    ) -> ResolvedTaggingConfig:
        return resolve_tagging(config, arch)

    @classmethod
    def examples(cls, config: PosTaggingConfig, source: SplitSource) -> TaggingExamples:
        assert isinstance(config, ResolvedTaggingConfig), "resolve_for makes one"
        split = TaggedSplit(source.folder, source.name)
        return TaggingExamples(config, split, row_multiple=source.row_multiple)

    def scores(
        self,
        encoder: EncoderModel,
        inputs: Inputs,
        selected: Int[Tensor, " P"],
        word_index: Int[Tensor, " P"] | None = None,
        words: int = 0,
    ) -> Float[Tensor, "N C"]:
        """Scores of the tags of selected subwords, or of words by the mean of their subwords."""
        states = self.features(encoder, inputs, selected)  # (P, D)
        if word_index is not None:
            states = mean_per_word(states, word_index, words)  # (P, D) -> (N, D)
        return self.head(states)

    def predict(self, encoder: EncoderModel, batch: TaggingBatch) -> dict[str, Prediction]:
        words = batch.word_index, len(batch.targets)
        scores = self.scores(encoder, batch.inputs, batch.selected, *words)
        return {OBJECTIVE: Classes(scores, batch.targets)}

    def metrics(
        self, predictions: Mapping[str, Prediction], batch: TaggingBatch
    ) -> Mapping[str, Metric]:
        """Accuracy for all words, for those out of vocabulary, and for ambiguous ones.

        A word whose tag is unseen in training counts as wrong; one without a known tag is omitted.
        """
        logits, targets = predictions[OBJECTIVE]
        correct = logits.argmax(-1) == targets
        groups = {
            "accuracy": batch.scored,
            "oov_accuracy": batch.oov,
            "ambiguous_accuracy": batch.ambiguous,
        }
        return {
            name: Ratio((correct & group).sum().float(), group.sum().float())
            for name, group in groups.items()
        }

    def predictor(self, encoder: EncoderModel, tokenizer: Tokenizer) -> TagPredictor:
        return TagPredictor(self, encoder, tokenizer)


@register_task("span_tagging", PosTaggingConfig())
class SpanTagging(PosTagging):
    """Spans of words, such as named entities and chunks, from tags such as O, B-NP and I-NP.

    The model and its loss are those of `pos_tagging`; metrics and predictions are spans.
    """

    collects_in_training = True
    results_class = SpanResults

    @classmethod
    def examples(cls, config: PosTaggingConfig, source: SplitSource) -> TaggingExamples:
        examples = super().examples(config, source)
        SpanTags.parse(examples.split.tables.tags)  # raises for tags of another kind
        return examples


def mean_per_word(
    states: Float[Tensor, "P D"], word_index: Tensor, words: int
) -> Float[Tensor, "N D"]:
    """The mean of each word's subwords."""
    sums = sum_per_word(states, word_index, words)
    ones = torch.ones_like(word_index, dtype=torch.float32)
    counts = sum_per_word(ones[:, None], word_index, words).clamp(min=1)
    return sums / counts.to(sums.dtype)


def sum_per_word(
    states: Float[Tensor, "P D"], word_index: Tensor, words: int
) -> Float[Tensor, "N D"]:
    """The sum of each word's subwords; in a fixed order on GPUs too, where index_add has none."""
    zeros = states.new_zeros(words, states.shape[1])
    if states.device.type == "cpu":
        return zeros.index_add(0, word_index, states)
    return zeros.index_put((word_index,), states, accumulate=True)
