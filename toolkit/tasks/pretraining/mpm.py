"""Masked position modeling together with masked language modeling (TACO, section 3.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_task
from toolkit.criteria import Classes, LazyPrediction, Prediction, project
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.generation.output import MaskPrediction
from toolkit.models.heads import PositionHead, TokenHead
from toolkit.models.interface import EncoderModel
from toolkit.tasks.encoder_factory import EncoderFactory
from toolkit.tasks.pretraining.fill_mask import fill_mask
from toolkit.tasks.pretraining.order_words import order_words
from toolkit.tasks.pretraining.position_config import MaskedPositionConfig
from toolkit.tasks.pretraining.position_examples import (
    MaskedPositionExamples,
    MaskedPositionsBatch,
)
from toolkit.tasks.task import Metric, TextTask
from toolkit.tasks.token_metrics import accuracy


@register_task("mpm", MaskedPositionConfig())
class MaskedPositionModel(
    TextTask[MaskedPositionConfig, MaskedPositionExamples, MaskedPositionsBatch]
):
    """-log p(x_i | masked x, all p) - log p(p_j | all x, masked p) (TACO, eq. 3 and 4).

    i over the selected tokens of one copy of a sentence, j over the selected positions of another;
    each term is averaged over its own positions.
    """

    generation_mode = "fill-mask"
    examples_class = MaskedPositionExamples

    def __init__(
        self, c: MaskedPositionConfig, encoder: EncoderModel, make_encoder: EncoderFactory
    ) -> None:
        super().__init__()
        self.coefficients = dict.fromkeys(c.objective_names, 1.0)
        if "mlm" in self.coefficients:
            self.head = TokenHead(encoder)
        if "mpm" in self.coefficients:
            check_position_ids(encoder)
            if c.position_range == "full_table" and encoder.max_positions:
                check_max_position(c.max_position, encoder.max_positions)
            self.position_head = PositionHead(encoder)

    def predict(
        self, encoder: EncoderModel, batch: MaskedPositionsBatch
    ) -> dict[str, LazyPrediction]:
        states = encoder.select_states(batch.inputs, batch.selected)  # (N, D)
        tokens = len(batch.token_targets)
        predictions: dict[str, LazyPrediction] = {}
        if "mlm" in self.coefficients:
            words, output = states[:tokens], partial(project, targets=batch.token_targets)
            predictions["mlm"] = self.head(words, encoder.token_embedding.weight, output)
        if "mpm" in self.coefficients:
            table = encoder.position_embedding
            assert table is not None, "checked when the task is built"
            logits = self.position_head(states[tokens:], table.weight[:-1])
            predictions["mpm"] = Classes(logits, batch.position_targets)
        return predictions

    def metrics(
        self, predictions: Mapping[str, Prediction], batch: MaskedPositionsBatch
    ) -> Mapping[str, Metric]:
        """Fraction of the selected positions whose most probable token or position is correct."""
        return {f"{name}_accuracy": accuracy(p) for name, p in predictions.items()}

    def fill_mask(
        self, encoder: EncoderModel, tokenizer: Tokenizer, sentences: Sequence[str], top: int
    ) -> list[list[MaskPrediction]]:
        self.check_objective("mlm", "Filling masks")
        return fill_mask(self.head, encoder, tokenizer, sentences, top)

    def order_words(
        self, encoder: EncoderModel, tokenizer: Tokenizer, sentence: str, top: int
    ) -> tuple[str, list[MaskPrediction]]:
        self.check_objective("mpm", "Ordering words")
        return order_words(self.position_head, encoder, tokenizer, sentence, top)

    def check_objective(self, name: str, what: str) -> None:
        if name not in self.coefficients:
            raise ToolkitError(
                f"{what} requires a model trained with --task.objectives mlm,mpm; this one was "
                f"trained with {', '.join(self.coefficients)}."
            )


def check_position_ids(encoder: EncoderModel) -> None:
    """An encoder must have a vector for hidden positions, and see positions only through ids."""
    hint = "Choose --arch taco, or bert with --arch.hidden-position-embedding true."
    if not encoder.takes_positions:
        raise ToolkitError(
            f"Task mpm requires an encoder that sees positions only through position ids, but "
            f"this one also has convolutions, or no positions at all. {hint}"
        )
    if encoder.position_embedding is None:
        raise ToolkitError(
            f"Task mpm requires an encoder with an embedding for hidden positions, but this one "
            f"has none. {hint}"
        )


def check_max_position(position: int, positions: int) -> None:
    """Raise a ToolkitError if max_position has no row in the position table."""
    if position >= positions:
        raise ToolkitError(
            f"task.max_position must be below arch.max_positions, but is {position} and the table "
            f"has {positions} rows. Set --task.max-position {positions - 1}."
        )
