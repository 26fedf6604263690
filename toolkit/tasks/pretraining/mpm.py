"""Masked position modeling together with masked language modeling (TACO, section 3.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from jaxtyping import Int
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_task
from toolkit.criteria import Classes, LazyPrediction, Prediction, project
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.generation.output import MaskPrediction
from toolkit.models.heads import PositionHead, TokenHead
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.tasks.capabilities import wrong_training_error
from toolkit.tasks.encoder_factory import EncoderFactory
from toolkit.tasks.pretraining.fill_mask import fill_mask
from toolkit.tasks.pretraining.order_words import order_words
from toolkit.tasks.pretraining.position_config import MaskedPositionConfig
from toolkit.tasks.pretraining.position_examples import (
    MaskedPositionExamples,
    MaskedPositionsBatch,
)
from toolkit.tasks.task import Metric, TargetScores, TextTask
from toolkit.tasks.token_metrics import accuracy, score_targets


@register_task("mpm", MaskedPositionConfig())
class MaskedPositionModel(
    TextTask[MaskedPositionConfig, MaskedPositionExamples, MaskedPositionsBatch]
):
    """-log p(x_i | masked x, all p) - log p(p_j | all x, masked p) (TACO, eq. 3 and 4).

    i over the selected tokens of one copy of a sentence, j over the selected positions of another;
    each term is averaged over its own positions.
    """

    generation_mode = "fill-mask"
    scorings = ("pseudo_log_likelihood", "within_word_left_to_right")
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
            self.position_head = PositionHead(encoder, c.position_count)

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
            logits = self.position_head.scores(encoder, states[tokens:])
            predictions["mpm"] = Classes(logits, batch.position_targets)
        return predictions

    def metrics(
        self, predictions: Mapping[str, Prediction], batch: MaskedPositionsBatch
    ) -> Mapping[str, Metric]:
        """Fraction of the selected positions whose most probable token or position is correct."""
        return {f"{name}_accuracy": accuracy(p) for name, p in predictions.items()}

    def score_targets(
        self,
        encoder: EncoderModel,
        inputs: Inputs,
        selected: Int[Tensor, " N"],
        targets: Int[Tensor, " N"],
    ) -> TargetScores:
        self.check_objective("mlm", "Scoring sentences")
        states = encoder.select_states(inputs, selected)  # (N, D)
        output = partial(score_targets, targets=targets)
        found: TargetScores = self.head(states, encoder.token_embedding.weight, output)
        return found

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
            given = ", ".join(self.coefficients)
            raise wrong_training_error(what, "--task.objectives mlm,mpm", given)


def check_position_ids(encoder: EncoderModel) -> None:
    """An encoder must see positions only through ids; a table must have a row for hidden ones."""
    if not encoder.takes_positions:
        raise ToolkitError(
            "Task mpm requires an encoder that sees positions only through position ids, but "
            "this one also has convolutions, or no positions at all. Choose --arch taco, or bert "
            "with --arch.positions rope or another term."
        )
    if encoder.position_embedding is None and encoder.max_positions is not None:
        raise ToolkitError(
            "Task mpm requires a row for hidden positions in the table of positions, but this one "
            "has none. Set --arch.hidden-position-embedding true."
        )


def check_max_position(position: int, positions: int) -> None:
    """Raise a ToolkitError if max_position has no row in the position table."""
    if position >= positions:
        raise ToolkitError(
            f"task.max_position must be below arch.max_positions, but is {position} and the table "
            f"has {positions} rows. Set --task.max-position {positions - 1}."
        )
