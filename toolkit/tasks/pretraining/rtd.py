"""Replaced token detection (ELECTRA, Clark et al. 2020): two networks trained from scratch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from torch import nn

from toolkit.common.registry import register_task
from toolkit.criteria import (
    IGNORED,
    Binary,
    Classes,
    LazyPrediction,
    Prediction,
    ProjectedClasses,
    project,
)
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.generation.output import MaskPrediction
from toolkit.metrics.classification import score_histogram
from toolkit.models.heads import DetectionHead, TokenHead
from toolkit.models.interface import EncoderModel
from toolkit.tasks.encoder_factory import EncoderFactory
from toolkit.tasks.pretraining.fill_mask import fill_mask
from toolkit.tasks.pretraining.rtd_config import ReplacedTokenConfig
from toolkit.tasks.pretraining.rtd_examples import (
    ReplacedTokenExamples,
    ReplacedTokensBatch,
)
from toolkit.tasks.pretraining.token_sampling import sample_tokens
from toolkit.tasks.task import Metric, Ranking, Ratio, TextTask
from toolkit.tasks.token_metrics import accuracy


class Generator(nn.Module):
    """A small masked language model that shares the discriminator's embeddings."""

    def __init__(self, encoder: EncoderModel, discriminator: EncoderModel) -> None:
        super().__init__()
        encoder.tie_embeddings_to(discriminator)
        self.encoder, self.head = encoder, TokenHead(encoder)

    def forward(self, batch: ReplacedTokensBatch) -> Classes | ProjectedClasses:
        states = self.encoder.select_states(batch.inputs, batch.selected)
        output = partial(project, targets=batch.targets)
        scores: Classes | ProjectedClasses
        scores = self.head(states, self.encoder.token_embedding.weight, output)
        return scores


@register_task("rtd", ReplacedTokenConfig())
class ReplacedTokens(TextTask[ReplacedTokenConfig, ReplacedTokenExamples, ReplacedTokensBatch]):
    """-log p_G(x_n | the rest) + w (-log p_D(y_t | x')), a mean over n and one over t (section 2).

    n runs over the selected positions, where x' has tokens sampled from p_G; y_t = [x'_t != x_t],
    t over all tokens. The encoder is the discriminator.
    """

    generation_mode = "fill-mask"
    examples_class = ReplacedTokenExamples

    def __init__(
        self, c: ReplacedTokenConfig, encoder: EncoderModel, make_encoder: EncoderFactory
    ) -> None:
        super().__init__()
        self.coefficients = {"mlm": 1.0, "rtd": c.discriminator_weight}
        self.generator = Generator(make_encoder.scale(c.generator_size), encoder)
        self.head = DetectionHead(encoder.width)

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

    def fill_mask(
        self, encoder: EncoderModel, tokenizer: Tokenizer, sentences: Sequence[str], top: int
    ) -> list[list[MaskPrediction]]:
        return fill_mask(self.generator.head, self.generator.encoder, tokenizer, sentences, top)
