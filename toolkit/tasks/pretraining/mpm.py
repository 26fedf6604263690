"""Masked position modeling beside masked language modeling (TACO, section 3.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_task
from toolkit.criteria import IGNORED, Classes, Prediction
from toolkit.data.loading.examples import Examples
from toolkit.generation.fill_mask import MaskPrediction
from toolkit.models.encoder import select_states
from toolkit.models.heads import PositionHead, TokenHead
from toolkit.models.interface import Sizes
from toolkit.tasks.pretraining.fill_mask import fill_mask
from toolkit.tasks.pretraining.fill_order import order_words
from toolkit.tasks.pretraining.position_examples import (
    MaskedPositionConfig,
    MaskedPositionExamples,
    MaskedPositionsBatch,
)
from toolkit.tasks.task import Ratio, Task


@register_task("mpm", MaskedPositionConfig())
class MaskedPositions(Task):
    """-log p(x_i | hidden x, all p) - log p(p_j | all x, hidden p) (TACO, eq. 3 and 4).

    i over the selected tokens of one copy of a sentence, j over the selected positions of another;
    each is a mean over its own places.
    """

    def __init__(
        self, c: MaskedPositionConfig, encoder: Any, sizes: Sizes, make_encoder: Any
    ) -> None:
        super().__init__()
        self.coefficients: Mapping[str, float] = dict.fromkeys(c.objective_names, 1.0)
        if "mlm" in c.objective_names:
            self.head = TokenHead(encoder)
        if "mpm" in c.objective_names:
            check_position_ids(encoder)
            if c.position_range == "table":
                check_max_position(c.max_position, encoder.max_positions)
            self.position_head = PositionHead(encoder)

    @classmethod
    def examples(
        cls, config: Any, folder: Any, split: str, *, seed: int, training: bool, fixed_shapes: bool
    ) -> Examples:
        return MaskedPositionExamples(
            config, folder, split, seed=seed, training=training, fixed_shapes=fixed_shapes
        )

    def predict(self, encoder: Any, batch: MaskedPositionsBatch) -> dict[str, Prediction]:
        states = select_states(
            encoder, batch.inputs, batch.selected
        )  # (N, D), selected places only
        words = len(batch.token_targets)
        found: dict[str, Prediction] = {}
        if "mlm" in self.coefficients:
            logits = self.head(states[:words], encoder.token_embedding.weight)
            found["mlm"] = Classes(logits, batch.token_targets)
        if "mpm" in self.coefficients:
            logits = self.position_head(states[words:], encoder.position_embedding.weight[:-1])
            found["mpm"] = Classes(logits, batch.position_targets)
        return found

    def metrics(self, predictions: Mapping[str, Prediction]) -> dict[str, Ratio]:
        """Share of the selected places whose most probable token or position is the true one."""
        figures = {}
        for name, (logits, targets) in predictions.items():
            right = (logits.argmax(-1) == targets).sum()  # IGNORED is no class: never right
            weight = (targets != IGNORED).sum().float()
            figures[f"{name}_accuracy"] = Ratio(right.float(), weight)
        return figures

    def fill_mask(
        self, encoder: Any, tokenizer: Any, sentences: Sequence[str], top: int = 5
    ) -> list[list[MaskPrediction]]:
        """For every [MASK] of every sentence, the `top` most probable tokens."""
        if "mlm" not in self.coefficients:
            raise ToolkitError(
                "filling masks needs a model that learned to, but this one was trained with "
                "--task.objectives mpm. Train with mlm,mpm."
            )
        return fill_mask(self.head, encoder, tokenizer, sentences, top)

    def order_words(
        self, encoder: Any, tokenizer: Any, sentence: str, top: int = 5
    ) -> tuple[str, list[MaskPrediction]]:
        """Words in braces, or all of them, in their most probable order."""
        if "mpm" not in self.coefficients:
            raise ToolkitError(
                "ordering words needs a model that learned to, but this one was trained with "
                "--task.objectives mlm. Train with mlm,mpm."
            )
        return order_words(self.position_head, encoder, tokenizer, sentence, top)


def check_position_ids(encoder: Any) -> None:
    """An encoder must have a vector for hidden positions, and see positions only through ids."""
    if not encoder.takes_positions:
        raise ToolkitError(
            "task mpm must have an encoder that knows positions by their ids alone, but this one "
            "also sees which words are neighbors, through its convolutions, or no positions at "
            "all. Use --arch taco, or bert with --arch.hidden-position-embedding true."
        )
    if getattr(encoder, "position_embedding", None) is None:
        raise ToolkitError(
            "task mpm must have an encoder with a vector for hidden positions, but this one has "
            "none. Use --arch taco, or bert with --arch.hidden-position-embedding true."
        )


def check_max_position(position: int, positions: int) -> None:
    if position >= positions:
        raise ToolkitError(
            f"task.max_position must be below arch.max_positions, but is {position} and the table "
            f"has {positions}. Set --task.max-position {positions - 1}."
        )
