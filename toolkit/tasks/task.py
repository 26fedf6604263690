"""A task: its data, heads and metrics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import TASKS
from toolkit.criteria import LazyPrediction, Prediction
from toolkit.data.formats.text.format import encode_raw_texts
from toolkit.data.storage.memory_folder import MemoryFolder
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.generation.output import MaskPrediction
from toolkit.models.interface import ArchConfig, EncoderModel, Inputs
from toolkit.tasks.batch import Batch
from toolkit.tasks.capabilities import HasTokensPerSample, resolve_length, wrong_training_error
from toolkit.tasks.examples import Examples, SplitSource
from toolkit.tasks.predictions import PredictionCollector
from toolkit.tasks.predictor import Predictor


class Ratio(NamedTuple):
    """A metric as numerator and denominator, which sum over batches and ranks."""

    total: Tensor
    weight: Tensor


class Ranking(NamedTuple):
    """The area under the ROC curve, as histograms of both classes' scores (metrics.auc)."""

    positives: Tensor
    negatives: Tensor


class Perplexity(NamedTuple):
    """exp(total / weight) of a summed -log p."""

    total: Tensor
    weight: Tensor


Metric = Ratio | Ranking | Perplexity


class TargetScores(NamedTuple):
    """What a model predicts for tokens that are known."""

    log_probabilities: Float[Tensor, " N"]
    is_best: Bool[Tensor, " N"]
    """Whether no token is more probable."""


C = TypeVar("C")
E = TypeVar("E", bound=Examples[Any])
B = TypeVar("B", bound=Batch)


class Task(nn.Module, ABC, Generic[C, E, B]):
    """Heads and metrics for one kind of work; registered with `@register_task(name, config)`.

    The parameters are the classes of its config, examples and batches. Built as
    `Task(config, encoder, make_encoder)`: `make_encoder(**overrides)` builds a second encoder of
    the same architecture, `make_encoder.scale(fraction)` a smaller one; `make_encoder.sizes` has
    the sizes that the data decides.
    """

    criterion: ClassVar[str] = "cross_entropy"
    """Name of the default criterion."""
    collects_in_training: ClassVar[bool] = False
    """Whether validation during training collects predictions, for metrics that are not means."""
    reports_perplexity: ClassVar[bool] = True
    """Whether to report exp of the first objective's loss."""
    is_generative: ClassVar[bool] = False
    """Whether its architectures have a decoder."""
    generation_mode: ClassVar[str] = ""
    """Mode of toolkit-generate for checkpoints of the task: translate, continue or fill-mask."""
    scorings: ClassVar[Sequence[str]] = ()
    """Scores of sentences that its models give, for minimal pairs, the default first."""
    examples_class: ClassVar[type[Examples[Any]]]
    """Class of the examples."""
    default_tokens: ClassVar[int | None] = None
    """Replaces tokens_per_sample 0, as far as the architecture allows; 0 for its maximum. None if
    the examples do not depend on the architecture."""
    coefficients: Mapping[str, float]
    """Objective -> its factor in the loss."""

    @classmethod
    def examples(cls, config: C, source: SplitSource) -> E:
        """The examples of one split."""
        examples: E = cls.examples_class(config, source)  # type: ignore[assignment]
        return examples

    @abstractmethod
    def predict(self, encoder: EncoderModel, batch: B) -> Mapping[str, LazyPrediction]:
        """One prediction per objective, for the selected positions only."""

    def metrics(self, predictions: Mapping[str, Prediction], batch: B) -> Mapping[str, Metric]:
        """Evaluation metrics besides the loss, such as accuracy."""
        return {}

    @classmethod
    def resolve_for(cls, config: C, arch: ArchConfig | EncoderModel) -> C:
        """The config for `examples`, completed for an architecture's config or encoder."""
        if cls.default_tokens is None:
            return config
        assert isinstance(config, HasTokensPerSample), "default_tokens replaces tokens_per_sample"
        return resolve_length(config, arch, cls.default_tokens)

    def collector(self, examples: E) -> PredictionCollector[B] | None:
        """Collects predictions for toolkit-validate; None if the task has no use for them."""
        return None

    def special_tokens(self, vocabulary: Vocabulary) -> tuple[Sequence[int], Sequence[int]]:
        """Ids before and after a text, as the encoder reads it: [CLS] and [SEP] if it has them."""
        if vocabulary.cls == vocabulary.pad:
            return (), ()
        return (vocabulary.cls,), (vocabulary.sep,)

    def encode_items(
        self,
        encoder: EncoderModel,
        tokenizer: Tokenizer,
        items: Sequence[object],
        labels: Sequence[object] | None,
    ) -> MemoryFolder:
        """Raw items to train on, encoded, as a data folder in memory."""
        raise ToolkitError(
            f"Task {TASKS.find_name(type(self))} reads no examples from memory. Run "
            f"toolkit-preprocess, and open the data folder with learner.open_dataset."
        )

    def fill_mask(
        self, encoder: EncoderModel, tokenizer: Tokenizer, sentences: Sequence[str], top: int
    ) -> list[list[MaskPrediction]]:
        """The `top` most probable tokens for each [MASK] of each sentence."""
        raise self._unsupported_error("Filling masks", "mlm")

    def score_targets(
        self,
        encoder: EncoderModel,
        inputs: Inputs,
        selected: Int[Tensor, " N"],
        targets: Int[Tensor, " N"],
    ) -> TargetScores:
        """log p of target tokens, for `scorings`; `selected` are flat indices into B x S."""
        raise self._unsupported_error("Scoring sentences", "mlm, mpm or language_modeling")

    def tag(
        self, encoder: EncoderModel, tokenizer: Tokenizer, sentences: Sequence[Sequence[str]]
    ) -> list[list[str]]:
        """The tag of each word of each sentence."""
        raise self._unsupported_error("Tagging words", "pos_tagging")

    def order_words(
        self, encoder: EncoderModel, tokenizer: Tokenizer, sentence: str, top: int
    ) -> tuple[str, list[MaskPrediction]]:
        """The sentence in its most probable order, and the `top` positions of each moved token."""
        raise self._unsupported_error("Ordering words", "mpm")

    def predictor(self, encoder: EncoderModel, tokenizer: Tokenizer) -> Predictor[Any, Any]:
        """Reads raw items, and turns the model's predictions into results."""
        raise self._unsupported_error("Predicting for raw items", "glue, squad or pos_tagging")

    def _unsupported_error(self, what: str, task: str) -> ToolkitError:
        return wrong_training_error(what, f"--task {task}", TASKS.find_name(type(self)))


class TextTask(Task[C, E, B]):
    """A task whose examples are plain texts, without labels."""

    def encode_items(
        self,
        encoder: EncoderModel,
        tokenizer: Tokenizer,
        items: Sequence[object],
        labels: Sequence[object] | None,
    ) -> MemoryFolder:
        return encode_raw_texts(tokenizer, items, labels)
