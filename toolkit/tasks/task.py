"""What a task is: it knows its data, its heads and its figures, and nothing about training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, overload

from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.criteria import Prediction
from toolkit.data.loading.examples import Examples
from toolkit.generation.fill_mask import MaskPrediction
from toolkit.tasks.predictions import PredictionCollector


class Ratio(NamedTuple):
    """A figure as numerator and denominator, so that batches and ranks simply add up."""

    total: Tensor
    weight: Tensor


class Ranking(NamedTuple):
    """Scores of both kinds by bin (toolkit.metrics.auc): the figure is the area they make."""

    positives: Tensor
    negatives: Tensor


class Perplexity(NamedTuple):
    """exp(total / weight) of a summed -log p: numerator and denominator add up as a ratio's do."""

    total: Tensor
    weight: Tensor


Metric = Ratio | Ranking | Perplexity


class Task(nn.Module, ABC):
    """Heads and figures of one kind of work; registered with `@register_task(name, config)`.

    Built as `Task(config, encoder, sizes, make_encoder)`; `make_encoder(**overrides)` gives a
    second encoder of the same architecture, `make_encoder.scaled(share)` a smaller one.
    """

    criterion: ClassVar[str] = "cross_entropy"
    """Name of the criterion used unless the user names another."""
    collects_in_training: ClassVar[bool] = False
    """Whether validation during training collects `answers` too: for figures that are no means."""
    reports_perplexity: ClassVar[bool] = True
    """Whether exp of the first objective's loss is told: how many words it is as good as kind."""
    is_generative: ClassVar[bool] = False
    """Whether its architectures are those that write, with a decoder."""
    coefficients: Mapping[str, float]
    """Objective -> its factor in the loss."""

    @classmethod
    @abstractmethod
    def examples(
        cls, config: Any, folder: Any, split: str, *, seed: int, training: bool, fixed_shapes: bool
    ) -> Examples:
        """The examples of one split of an opened DataFolder.

        `fixed_shapes` pads the number of selected places to a multiple of 64: what processors
        prepare for the product of a new shape takes them longer than a few more rows.
        """

    @abstractmethod
    def predict(self, encoder: nn.Module, batch: Any) -> dict[str, Prediction]:
        """One prediction per objective, for the selected places only."""

    def metrics(self, predictions: Mapping[str, Prediction]) -> Mapping[str, Metric]:
        """Figures of evaluation besides the loss, such as accuracy, that predictions alone tell."""
        return {}

    @classmethod
    def resolve_for(cls, config: Any, arch: Any) -> Any:
        """The config that `examples` gets, for an architecture of the config `arch`."""
        return config

    def batch_metrics(
        self, predictions: Mapping[str, Prediction], batch: Any
    ) -> Mapping[str, Metric]:
        """Figures as those of `measure` that need more of the batch than its targets."""
        return {}

    def collector(self, examples: Examples) -> PredictionCollector | None:
        """Where toolkit-validate collects each single answer; None where it need not."""
        return None

    def fill_mask(
        self, encoder: nn.Module, tokenizer: Any, sentences: Sequence[str], top: int
    ) -> list[list[MaskPrediction]]:
        """Per sentence and per [MASK] in it, the `top` tokens with their probabilities."""
        raise ToolkitError(
            f"filling masks needs a task that learns to, such as mlm, but this model's is "
            f"{type(self).__name__}."
        )

    def tag(
        self, encoder: nn.Module, tokenizer: Any, sentences: Sequence[Sequence[str]]
    ) -> list[list[str]]:
        """The tag of every word of every sentence."""
        raise ToolkitError(
            f"tagging words needs a task that learns to, such as pos_tagging, but this model's is "
            f"{type(self).__name__}."
        )

    def order_words(
        self, encoder: nn.Module, tokenizer: Any, sentence: str, top: int
    ) -> tuple[str, list[MaskPrediction]]:
        """Words in braces, or all of them, in their most probable order; positions of each."""
        raise ToolkitError(
            f"ordering words needs a task that learns to, such as mpm, but this model's is "
            f"{type(self).__name__}."
        )


class Learner(nn.Module):
    """An encoder and the task that trains it: the one module to wrap for many processes.

    Wrapping the encoder alone would leave the gradients of the task's heads unsynchronized.
    """

    tokenizer: Any = None
    """Text to tokens and back; a loaded checkpoint brings its own."""

    def __init__(self, encoder: nn.Module, task: Task) -> None:
        super().__init__()
        self.encoder, self.task = encoder, task

    def forward(self, batch: Any) -> dict[str, Prediction]:
        return self.task.predict(self.encoder, batch)

    @overload
    def fill_mask(
        self, sentences: str, top: int = 5, *, batch_size: int = 32
    ) -> list[MaskPrediction]: ...
    @overload
    def fill_mask(
        self, sentences: list[str], top: int = 5, *, batch_size: int = 32
    ) -> list[list[MaskPrediction]]: ...
    def fill_mask(
        self, sentences: str | list[str], top: int = 5, *, batch_size: int = 32
    ) -> list[MaskPrediction] | list[list[MaskPrediction]]:
        """For each [MASK] of a sentence, the `top` most probable tokens; one list per sentence.

        So many sentences go through the encoder together.
        """
        if self.tokenizer is None:
            raise ToolkitError(
                "filling masks needs a learner that knows its vocabulary, but this one has no "
                "tokenizer. Load it with load_checkpoint, or set learner.tokenizer."
            )
        if batch_size < 1:
            raise ToolkitError(f"batch_size must be at least 1, but is {batch_size}.")
        texts, training = [sentences] if isinstance(sentences, str) else sentences, self.training
        self.eval()
        try:
            filled = [
                each
                for first in range(0, len(texts), batch_size)
                for each in self.task.fill_mask(
                    self.encoder, self.tokenizer, texts[first : first + batch_size], top
                )
            ]
        finally:
            self.train(training)
        return filled[0] if isinstance(sentences, str) else filled

    def order_words(self, sentence: str, top: int = 5) -> tuple[str, list[MaskPrediction]]:
        """The sentence with its words in braces, or all of them, in their most probable order.

        Beside it, for each token of these words, its `top` likeliest positions.
        """
        if self.tokenizer is None:
            raise ToolkitError(
                "ordering words needs a learner that knows its vocabulary, but this one has no "
                "tokenizer. Load it with load_checkpoint, or set learner.tokenizer."
            )
        training = self.training
        self.eval()
        try:
            return self.task.order_words(self.encoder, self.tokenizer, sentence, top)
        finally:
            self.train(training)

    def tag(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """The tag of every word of every sentence, which is a list of words."""
        if self.tokenizer is None:
            raise ToolkitError(
                "tagging words needs a learner that knows its vocabulary, but this one has no "
                "tokenizer. Load it with load_checkpoint, or set learner.tokenizer."
            )
        training = self.training
        self.eval()
        try:
            return self.task.tag(self.encoder, self.tokenizer, sentences)
        finally:
            self.train(training)
