"""Replaced token detection (ELECTRA, Clark et al. 2020): two nets trained together from scratch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_task
from toolkit.criteria import IGNORED, Binary, Classes, Prediction
from toolkit.data.loading.examples import Examples
from toolkit.generation.fill_mask import MaskPrediction
from toolkit.metrics.auc import score_histogram
from toolkit.models.encoder import SharesEmbeddings, select_states
from toolkit.models.heads import DetectionHead, TokenHead
from toolkit.models.interface import Sizes
from toolkit.tasks.pretraining.fill_mask import fill_mask
from toolkit.tasks.pretraining.rtd_examples import (
    ReplacedTokenConfig,
    ReplacedTokenExamples,
    ReplacedTokensBatch,
    sample_tokens,
)
from toolkit.tasks.task import Metric, Ranking, Ratio, Task


class Generator(nn.Module):
    """A small masked language model that reads and predicts with another encoder's embeddings."""

    def __init__(self, encoder: Any, discriminator: Any) -> None:
        super().__init__()
        encoder.tie_embeddings_to(discriminator)
        self.encoder, self.head = encoder, TokenHead(encoder)

    def forward(self, batch: ReplacedTokensBatch) -> Float[Tensor, "N V"]:
        states = select_states(self.encoder, batch.inputs, batch.selected)
        logits: Tensor = self.head(states, self.encoder.token_embedding.weight)
        return logits


@register_task("rtd", ReplacedTokenConfig())
class ReplacedTokens(Task):
    """-log p_G(x_n | the rest) + w (-log p_D(y_t | x')), a mean over n and one over t (section 2).

    n runs over the selected places; x' is the sentence with tokens drawn from p_G there, y_t is 1
    where x'_t is not x_t, and t runs over all tokens. The encoder is the discriminator.
    """

    def __init__(
        self, c: ReplacedTokenConfig, encoder: Any, sizes: Sizes, make_encoder: Any
    ) -> None:
        super().__init__()
        check_shares_embeddings(encoder)
        self.coefficients: Mapping[str, float] = {"mlm": 1.0, "rtd": c.discriminator_weight}
        self.generator = Generator(make_encoder.scaled(c.generator_size), encoder)
        self.head = DetectionHead(encoder.width)

    @classmethod
    def examples(
        cls, config: Any, folder: Any, split: str, *, seed: int, training: bool, fixed_shapes: bool
    ) -> Examples:
        return ReplacedTokenExamples(
            config, folder, split, seed=seed, training=training, fixed_shapes=fixed_shapes
        )

    def predict(self, encoder: Any, batch: ReplacedTokensBatch) -> dict[str, Prediction]:
        logits = self.generator(batch)
        shown = batch.with_tokens(sample_tokens(logits, batch.draws))
        inputs = batch.inputs._replace(tokens=shown.view_as(batch.inputs.tokens))
        states = encoder(inputs).states.flatten(0, 1)  # (B, S, D) -> (BS, D)
        return {
            "mlm": Classes(logits, batch.targets),
            "rtd": Binary(self.head(states), batch.labels(shown)),
        }

    def metrics(self, predictions: Mapping[str, Prediction]) -> Mapping[str, Metric]:
        """Of the generator the accuracy; of the discriminator accuracy, precision, recall, AUC.

        replaced is the share of tokens that are replaced.
        """
        filled, found = predictions["mlm"], predictions["rtd"]
        assert isinstance(filled, Classes) and isinstance(found, Binary), "as predicted above"
        best = filled.logits.argmax(-1)  # IGNORED is no class, so it is never right
        asked = found.targets != IGNORED
        yes, said = found.targets == 1, (found.logits > 0) & asked
        real, replaced = asked.sum().float(), yes.sum().float()
        hits = (said & yes).sum().float()
        return {
            "generator_accuracy": Ratio(
                (best == filled.targets).sum().float(), (filled.targets != IGNORED).sum().float()
            ),
            "discriminator_accuracy": Ratio((asked & (said == yes)).sum().float(), real),
            "precision": Ratio(hits, said.sum().float()),
            "recall": Ratio(hits, replaced),
            "replaced": Ratio(replaced, real),
            "auc": Ranking(
                score_histogram(found.logits, yes), score_histogram(found.logits, asked & ~yes)
            ),
        }

    def fill_mask(
        self, encoder: Any, tokenizer: Any, sentences: Sequence[str], top: int = 5
    ) -> list[list[MaskPrediction]]:
        """For every [MASK] of every sentence, the generator's `top` most probable tokens."""
        return fill_mask(self.generator.head, self.generator.encoder, tokenizer, sentences, top)


def check_shares_embeddings(encoder: Any) -> None:
    if not isinstance(encoder, SharesEmbeddings):
        raise ToolkitError(
            f"task rtd must have an encoder whose embeddings a generator can share, but "
            f"{type(encoder).__name__} has no method borrow_embeddings. Use one made of "
            f"toolkit.models.encoder.Encoder, such as bert_small."
        )
