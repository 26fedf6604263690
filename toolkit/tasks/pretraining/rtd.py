"""Replaced token detection (ELECTRA, Clark et al. 2020): two networks trained from scratch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_task
from toolkit.config.declared import OF_MODEL, Above, AtMost, PositiveFloat
from toolkit.criteria import (
    IGNORED,
    Binary,
    Classes,
    LazyPrediction,
    Prediction,
    ProjectedClasses,
    project,
)
from toolkit.data.samples.masking import SAMPLE
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.metrics.classification import score_histogram
from toolkit.models.heads import DetectionHead, TokenHead
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.pretraining.mlm import (
    MaskingConfig,
    MaskingExamples,
    MaskingStrategy,
    TokenTask,
    predict_tokens,
)
from toolkit.tasks.pretraining.token_sampling import sample_tokens
from toolkit.tasks.task import EncoderFactory, Metric, Ranking, Ratio, accuracy


@dataclass(frozen=True, kw_only=True)
class ReplacedTokenConfig(MaskingConfig):
    """Options of the task rtd."""

    masking: MaskingStrategy = "electra"
    """Which tokens the generator predicts. electra: drawn with replacement, as in ELECTRA; exact:
    an exact fraction; bernoulli: each independently; whole_word: all subwords of a word; span: runs
    of words."""
    generator_size: Annotated[float, Above(0), AtMost(1)] = field(default=0.25, metadata=OF_MODEL)
    """The generator's widths and heads as a fraction of the model's, at least one head. The paper
    uses 0.25 for small models and 0.3333 for base."""
    discriminator_weight: PositiveFloat = field(default=50.0, metadata=OF_MODEL)
    """Weight of the discriminator's loss; the generator's is 1."""


class ReplacedTokensBatch(NamedTuple):
    """Sentences with masked tokens, and random numbers to sample replacements with."""

    inputs: Inputs
    selected: Int[Tensor, " N"]
    """Flat indices of the selected positions into B x S; padding rows repeat index 0."""
    targets: Int[Tensor, " N"]
    """Original token of each selected position; IGNORED (-100) in padding rows."""
    draws: Float[Tensor, " N"]
    """A uniform number in [0, 1) per row; a position selected twice has the same twice."""
    weights: dict[str, float]
    sentences: int
    tokens: int

    @property
    def original(self) -> Int[Tensor, " BS"]:
        """The original sentences, flattened."""
        return self.with_tokens(self.targets)

    def with_tokens(self, new: Int[Tensor, " N"]) -> Int[Tensor, " BS"]:
        """The sentences with new tokens at the selected positions; padding rows do nothing."""
        tokens = self.inputs.tokens.flatten()
        kept = tokens.index_select(0, self.selected)
        return tokens.scatter(0, self.selected, torch.where(self.targets == IGNORED, kept, new))

    def labels(self, tokens: Int[Tensor, " BS"]) -> Int[Tensor, " BS"]:
        """1 where a token is not the original; IGNORED in padding and for an idle rank."""
        labels = (tokens != self.original).long()
        if not self.weights["rtd"]:
            return torch.full_like(labels, IGNORED)
        padding = self.inputs.padding
        return labels if padding is None else labels.masked_fill(padding.flatten(), IGNORED)


class ReplacedTokenExamples(MaskingExamples[ReplacedTokensBatch]):
    """The sentences of one split; every epoch masks other tokens.

    The generator's loss sums over the selected positions, the discriminator's over all tokens.
    """

    def __init__(self, config: MaskingConfig, source: SplitSource) -> None:
        check_mask_token(source.folder.vocabulary, source.folder.name)
        super().__init__(config, source)

    def make_batch(self, ids: IntArray, epoch: int | None) -> ReplacedTokensBatch:
        batch = self.mask_tokens(ids, epoch)
        rows, positions = np.divmod(batch.selected.numpy(), batch.inputs.tokens.shape[1])
        draws = self.noise(ids, epoch).at(SAMPLE, rows, positions)
        return ReplacedTokensBatch(
            inputs=batch.inputs,
            selected=batch.selected,
            targets=batch.targets,
            draws=torch.from_numpy(draws.astype(np.float32)),
            weights={**batch.weights, "rtd": float(batch.tokens)},
            sentences=batch.sentences,
            tokens=batch.tokens,
        )


def check_mask_token(vocabulary: Vocabulary, name: str) -> None:
    """[MASK] must differ from the other special tokens: the generator predicts what it hides."""
    others = {role: i for role, i in vocabulary.roles.items() if role != "mask"}
    same = [role for role, i in others.items() if i == vocabulary.mask]
    if same:
        raise ToolkitError(
            f"Task rtd requires a vocabulary with a separate [MASK] token, but that of {name} uses "
            f"{vocabulary.symbols[vocabulary.mask]!r} also as {same[0]}. Run toolkit-preprocess "
            f"with a vocabulary that has one."
        )


class Generator(nn.Module):
    """A small masked language model that shares the discriminator's embeddings."""

    def __init__(self, encoder: EncoderModel, discriminator: EncoderModel) -> None:
        super().__init__()
        encoder.tie_embeddings_to(discriminator)
        self.encoder, self.head = encoder, TokenHead(encoder)

    def forward(self, batch: ReplacedTokensBatch) -> Classes | ProjectedClasses:
        output = partial(project, targets=batch.targets)
        scores: Classes | ProjectedClasses
        scores = predict_tokens(self.encoder, self.head, batch.inputs, batch.selected, output)
        return scores


@register_task("rtd", ReplacedTokenConfig())
class ReplacedTokens(TokenTask[ReplacedTokenConfig, ReplacedTokenExamples, ReplacedTokensBatch]):
    """-log p_G(x_n | the rest) + w (-log p_D(y_t | x')), a mean over n and one over t (section 2).

    n runs over the selected positions, where x' has tokens sampled from p_G; y_t = [x'_t != x_t],
    t over all tokens. The encoder is the discriminator.
    """

    examples_class = ReplacedTokenExamples

    def __init__(
        self, c: ReplacedTokenConfig, encoder: EncoderModel, make_encoder: EncoderFactory
    ) -> None:
        super().__init__()
        self.coefficients = {"mlm": 1.0, "rtd": c.discriminator_weight}
        self.generator = Generator(make_encoder.scale(c.generator_size), encoder)
        self.head = DetectionHead(encoder.width)

    def token_head(self, encoder: EncoderModel) -> tuple[EncoderModel, TokenHead]:
        return self.generator.encoder, self.generator.head

    def predict(
        self, encoder: EncoderModel, batch: ReplacedTokensBatch
    ) -> dict[str, LazyPrediction]:
        scores = self.generator(batch)
        tokens = batch.with_tokens(sample_tokens(scores, batch.draws))
        inputs = batch.inputs._replace(tokens=tokens.view_as(batch.inputs.tokens))
        states = encoder(inputs).states.flatten(0, 1)  # (B, S, D) -> (BS, D)
        return {
            "mlm": scores,
            "rtd": Binary(self.head(states), batch.labels(tokens)),
        }

    def metrics(
        self, predictions: Mapping[str, Prediction], batch: ReplacedTokensBatch
    ) -> Mapping[str, Metric]:
        """Accuracy of the generator; accuracy, precision, recall and AUC of the discriminator.

        `replaced` is the fraction of replaced tokens.
        """
        logits, labels = predictions["rtd"]
        real, positive = labels != IGNORED, labels == 1
        predicted = (logits > 0) & real
        tokens, replaced = real.sum().float(), positive.sum().float()
        hits = (predicted & positive).sum().float()
        auc = Ranking(score_histogram(logits, positive), score_histogram(logits, real & ~positive))
        return {
            "generator_accuracy": accuracy(predictions["mlm"]),
            "discriminator_accuracy": Ratio((real & (predicted == positive)).sum().float(), tokens),
            "precision": Ratio(hits, predicted.sum().float()),
            "recall": Ratio(hits, replaced),
            "replaced": Ratio(replaced, tokens),
            "auc": auc,
        }
