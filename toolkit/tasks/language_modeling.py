"""Language modeling: predict each token from the previous ones (Bengio et al. 2003).

B batch   T positions of a sample   N positions with a token
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from toolkit.common.arrays import IntArray
from toolkit.common.registry import register_task
from toolkit.config.declared import AtLeast, Options
from toolkit.criteria import IGNORED, LazyPrediction, Prediction, project
from toolkit.data.loading.batching import compute_fingerprint
from toolkit.data.samples.sequence_pairs import TokenBlocks
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.tasks.examples import Examples, SplitSource, TargetBatch
from toolkit.tasks.task import (
    Metric,
    Perplexity,
    TargetScores,
    Task,
    encode_texts,
    score_targets,
    token_metrics,
)


@dataclass(frozen=True, kw_only=True)
class LanguageModelingConfig(Options, section="task"):
    """Options of the task language_modeling."""

    tokens_per_sample: Annotated[int, AtLeast(2, or_zero=True)] = 0
    """Maximum number of tokens per sample, end symbols included: the length of the context. 0 for
    512, or the architecture's maximum if less."""
    sample_mode: Literal["blocks", "documents", "items"] = "blocks"
    """Unit of one sample. blocks: running text of this length, across all boundaries; documents:
    the same within one document; items: an item, such as a line, or a part of one."""
    eos_after: Literal["items", "documents"] = "items"
    """What an end symbol follows; it is predicted like other tokens. With sample_mode items, always
    items."""


OBJECTIVE = "lm"


class BlockExamples(Examples[TargetBatch]):
    """The samples of one split."""

    def __init__(self, c: LanguageModelingConfig, source: SplitSource) -> None:
        folder, self.row_multiple = source.folder, source.row_multiple
        split = folder.split(source.name)
        self._blocks = TokenBlocks(
            split.column("tokens"),
            folder.vocabulary,
            sample_mode=c.sample_mode,
            eos_after="items" if c.sample_mode == "items" else c.eos_after,
            tokens_per_sample=c.tokens_per_sample,
        )
        self.text = self._blocks, folder, split
        self._eos = folder.vocabulary.sep
        self._words = folder.vocabulary.words
        self.lengths = self._blocks.lengths
        options = (c.sample_mode, c.eos_after, c.tokens_per_sample)
        self.fingerprint = compute_fingerprint(folder.fingerprint, source.name, *options)

    def make_batch(self, ids: IntArray, epoch: int | float | None) -> TargetBatch:
        previous, tokens, inside = self._blocks.read_batch(ids % len(self))
        targets = tokens[inside]
        starts = self._words.starts(np.concatenate([previous[:, :1], tokens], 1))[:, 1:]
        # an end symbol is a word; so is what follows it, where some tokenizers omit the mark
        starts |= (tokens == self._eos) | (previous == self._eos)
        return TargetBatch(
            inputs=Inputs(tokens=torch.from_numpy(previous)),
            selected=self.pad(np.flatnonzero(inside), 0),
            targets=self.pad(targets, IGNORED),
            weights={OBJECTIVE: float(len(targets))},
            sentences=len(ids),
            tokens=len(targets),
            word_count=float((starts + self._words.inner[tokens])[inside].sum()),
        )


@register_task("language_modeling", LanguageModelingConfig())
class LanguageModeling(Task[LanguageModelingConfig, BlockExamples, TargetBatch]):
    """-log p(w_t | w_1 .. w_{t-1}), t over all positions of a text, end symbols included."""

    coefficients: Mapping[str, float] = {OBJECTIVE: 1.0}
    architecture_kind = "a causal language model"
    generation_mode = "continue"
    scorings = ("log_likelihood",)
    encode_items = encode_texts
    examples_class = BlockExamples
    default_tokens = 512

    def special_tokens(self, vocabulary: Vocabulary) -> tuple[Sequence[int], Sequence[int]]:
        """The end symbol starts a text."""
        return (vocabulary.sep,), ()

    def predict(self, encoder: EncoderModel, batch: TargetBatch) -> dict[str, LazyPrediction]:
        states = encoder.select_states(batch.inputs, batch.selected)  # (N, D)
        table = cast(GenerativeModel, encoder).output_embedding.weight
        return {OBJECTIVE: project(states, table, None, targets=batch.targets)}

    def score_targets(
        self,
        encoder: EncoderModel,
        inputs: Inputs,
        selected: Int[Tensor, " N"],
        targets: Int[Tensor, " N"],
        begins: Bool[Tensor, " v"] | None = None,
    ) -> TargetScores:
        states = encoder.select_states(inputs, selected)  # (N, D)
        table = cast(GenerativeModel, encoder).output_embedding.weight
        return score_targets(states, table, None, None, targets, begins)

    def continue_states(
        self,
        encoder: EncoderModel,
        source: Int[Tensor, "U S"],
        rows: Int[Tensor, " B"],
        previous: Int[Tensor, "B T"],
        selected: Int[Tensor, " N"],
    ) -> Float[Tensor, "N D"]:
        decoder = cast(GenerativeModel, encoder)
        cache = decoder.cache(len(source))
        decoder.decode(source, cache=cache)
        cache.reorder(rows)
        return decoder.decode(previous, cache=cache, selected=selected)[0]  # (N, D)

    def metrics(
        self, predictions: Mapping[str, Prediction], batch: TargetBatch
    ) -> Mapping[str, Metric]:
        """nll and ppl per token, without label smoothing; accuracy; word_ppl = exp(summed nll /
        words of the text and end symbols), which is comparable between vocabularies.
        """
        metrics = token_metrics(predictions[OBJECTIVE])
        words = torch.tensor(batch.word_count * bool(batch.sentences))  # 0 of an idle rank
        return {**metrics, "word_ppl": Perplexity(metrics["nll"].total, words)}
