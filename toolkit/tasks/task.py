"""A task: its data, heads and metrics.

N targets   E width of the table   V vocabulary
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES, TASKS, suggest_name
from toolkit.config.declared import OF_MODEL, Options
from toolkit.config.sections import ComponentConfig
from toolkit.criteria import IGNORED, LazyPrediction, Prediction
from toolkit.criteria.cross_entropy import CrossEntropy, CrossEntropyConfig
from toolkit.data.formats.text import encode_raw_texts
from toolkit.data.storage.data_folder import MemoryFolder
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.generation.output import MaskPrediction
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import ArchConfig, EncoderModel, Inputs, Sizes
from toolkit.nn.attention.position import check_parts
from toolkit.nn.ops.linear import soft_cap
from toolkit.tasks.examples import B, Examples, SplitSource
from toolkit.tasks.predictions import Predictor, Results


class Ratio(NamedTuple):
    """A metric as numerator and denominator, which sum over batches and ranks."""

    total: Tensor
    weight: Tensor


class Ranking(NamedTuple):
    """The area under the ROC curve, as histograms of both classes' scores (metrics.auc)."""

    positives: Tensor
    negatives: Tensor


class Perplexity(Ratio):
    """exp(total / weight) of a summed -log p."""


Metric = Ratio | Ranking


class TargetScores(NamedTuple):
    """What a model predicts for tokens that are known."""

    log_probabilities: Float[Tensor, " N"]
    is_best: Bool[Tensor, " N"]
    """Whether no token is more probable."""
    entropy: Float[Tensor, " N"] | None = None
    """-sum p log p of the distribution; like what follows, only with `begins`."""
    rank: Float[Tensor, " N"] | None = None
    """1 + number of tokens that are more probable."""
    log_share: Float[Tensor, " N"] | None = None
    """log of the sum of p over the tokens that begin a word, or over the others, as the target."""


C = TypeVar("C")
E = TypeVar("E", bound=Examples[Any])


RENAMED = {
    "collector": "`results_class`, a class of toolkit.tasks.predictions.Results",
    "predictor": "`predictor_class`, a class of toolkit.tasks.predictions.Predictor",
    "is_generative": "`architecture_kind`, the kind of architecture that fits",
}
"""Name that the task of a plugin may define -> what it is now."""


class Task(nn.Module, ABC, Generic[C, E, B]):
    """Heads and metrics for one kind of work; registered with `@register_task(name, config)`.

    What only some tasks can do, they declare by methods: `ReadsItems`, `PredictsItems`,
    `FillsMasks`, `ScoresTargets` and `OrdersWords`.

    The parameters are the classes of its config, examples and batches. Built as
    `Task(config, encoder, make_encoder)`: `make_encoder(**overrides)` builds a second encoder of
    the same architecture, `make_encoder.scale(fraction)` a smaller one; `make_encoder.sizes` has
    the sizes that the data decides.
    """

    criterion: ClassVar[str] = "cross_entropy"
    """Name of the default criterion."""
    collects_in_training: ClassVar[bool] = False
    """Whether validation during training has results, for metrics that are not means."""
    reports_perplexity: ClassVar[bool] = True
    """Whether to report exp of the first objective's loss."""
    architecture_kind: ClassVar[str] = "an encoder"
    """Also "a causal language model" or "an encoder-decoder model"."""
    generation_mode: ClassVar[str] = ""
    """Mode of toolkit-generate for checkpoints of the task: translate, continue or fill-mask."""
    examples_class: ClassVar[type[Any]]
    """Class of the examples, called with the config and the split."""
    results_class: ClassVar[type[Results[Any, Any]] | None] = None
    """Class of the results, called with the examples; None if there are none."""
    predictor_class: ClassVar[type[Predictor[Any, Any]]]
    """Reads raw items, if the task can: called with the task, the encoder and the tokenizer."""
    default_tokens: ClassVar[int | None] = None
    """Replaces tokens_per_sample 0, as far as the architecture allows; 0 for its maximum. None if
    the examples do not depend on the architecture."""
    coefficients: Mapping[str, float]
    """Objective -> its factor in the loss."""

    def __init__(self, config: Any = None, *_: object) -> None:
        super().__init__()
        self.config = config

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for old in RENAMED.keys() & vars(cls).keys():
            raise ToolkitError(f"{cls.__name__}.{old} is now {RENAMED[old]}. Rename it.")

    @classmethod
    def examples(cls, config: C, source: SplitSource) -> E:
        """The examples of one split."""
        return cls.examples_class(config, source)

    @abstractmethod
    def predict(self, encoder: EncoderModel, batch: B) -> Mapping[str, LazyPrediction]:
        """One prediction per objective, for the selected positions only."""

    def metrics(self, predictions: Mapping[str, Prediction], batch: B) -> Mapping[str, Metric]:
        """Evaluation metrics besides the loss, such as accuracy."""
        return {}

    @classmethod
    def resolve_for(cls, config: C, arch: ArchConfig | EncoderModel) -> C:
        """The config for `examples`, completed for an architecture's config or encoder."""
        tokens = cls.default_tokens
        return config if tokens is None else resolve_length(config, arch, tokens)

    def results(self, examples: E) -> Results[B, Any] | None:
        """Stores the predictions for examples; None if the task has no use for them."""
        return None if self.results_class is None else self.results_class(examples)

    def special_tokens(self, vocabulary: Vocabulary) -> tuple[Sequence[int], Sequence[int]]:
        """Ids before and after a text, as the encoder reads it: [CLS] and [SEP] if it has them."""
        has_them = vocabulary.cls != vocabulary.pad
        return ((vocabulary.cls,), (vocabulary.sep,)) if has_them else ((), ())


def encode_texts(
    task: object,
    encoder: EncoderModel,
    tokenizer: Tokenizer,
    items: Sequence[object],
    labels: Sequence[object] | None,
) -> MemoryFolder:
    """The method `encode_items` of tasks whose examples are plain texts, without labels."""
    return encode_raw_texts(tokenizer, items, labels)


@runtime_checkable
class ReadsItems(Protocol):
    """A task that can be trained on raw items: `learner.dataset`."""

    def encode_items(
        self,
        encoder: EncoderModel,
        tokenizer: Tokenizer,
        items: Sequence[object],
        labels: Sequence[object] | None,
    ) -> MemoryFolder:
        """The items as a data folder in memory."""


@runtime_checkable
class PredictsItems(Protocol):
    """A task with predictions for raw items: `learner.predict` and toolkit-predict."""

    predictor_class: ClassVar[type[Predictor[Any, Any]]]


@runtime_checkable
class FillsMasks(Protocol):
    """A task whose models predict masked tokens."""

    def fill_mask(
        self, encoder: EncoderModel, tokenizer: Tokenizer, sentences: Sequence[str], top: int
    ) -> list[list[MaskPrediction]]:
        """The `top` most probable tokens for each [MASK] of each sentence."""


@runtime_checkable
class ScoresTargets(Protocol):
    """A task whose models give probabilities of tokens: minimal pairs and word order."""

    @property
    def scorings(self) -> Sequence[str]:
        """Names of the sentence scores that follow from them, the default first."""

    def score_targets(
        self,
        encoder: EncoderModel,
        inputs: Inputs,
        selected: Int[Tensor, " N"],
        targets: Int[Tensor, " N"],
        begins: Bool[Tensor, " v"] | None = None,
    ) -> TargetScores:
        """log p of target tokens; `selected` are flat indices into B x S.

        With `begins`, whether each token begins a word, all fields of the scores.
        """


@runtime_checkable
class ScoresContinuations(Protocol):
    """A task whose models give probabilities of tokens after others, which are read once."""

    def continue_states(
        self,
        encoder: EncoderModel,
        source: Int[Tensor, "U S"],
        rows: Int[Tensor, " B"],
        previous: Int[Tensor, "B T"],
        selected: Int[Tensor, " N"],
    ) -> Float[Tensor, "N D"]:
        """States that predict tokens; `selected` are flat indices into the B x T of `previous`.

        Row b follows source[rows[b]].
        """


@runtime_checkable
class OrdersWords(Protocol):
    """A task whose models predict positions."""

    def order_words(
        self, encoder: EncoderModel, tokenizer: Tokenizer, sentence: str, top: int
    ) -> tuple[str, list[MaskPrediction]]:
        """The sentence in its most probable order, and the `top` positions of each moved token."""


CAPABILITIES: Mapping[type, tuple[str, str, str]] = {
    ReadsItems: (
        "Training on texts in memory",
        "mlm, hybrid, mpm, rtd, language_modeling or glue",
        " Run toolkit-preprocess, and open the data folder with learner.open_dataset.",
    ),
    PredictsItems: ("Predicting for raw items", "glue, squad or pos_tagging", ""),
    FillsMasks: ("Filling masks", "mlm", ""),
    ScoresTargets: ("Scoring sentences", "mlm, hybrid, mpm or language_modeling", ""),
    OrdersWords: ("Ordering words", "mpm", ""),
}
"""Capability -> what it is for, tasks that have it, and another way, for the error about others."""
P = TypeVar("P")


def require(task: object, capability: type[P]) -> P:
    """The task, which must have a capability; else a ToolkitError that names tasks that do."""
    if isinstance(task, capability):
        return task
    what, tasks, more = CAPABILITIES[capability]
    raise wrong_training_error(what, f"--task {tasks}", TASKS.find_name(type(task)), more=more)


class EncoderFactory(NamedTuple):
    """Builds encoders of one architecture for data of these sizes."""

    arch: ComponentConfig
    sizes: Sizes

    def __call__(self, **overrides: object) -> EncoderModel:
        """An encoder with some of the architecture's options changed."""
        config = override_config(self.arch.config, overrides, f"arch {self.arch.name!r}")
        encoder: EncoderModel = ARCHITECTURES[self.arch.name].factory(config, self.sizes)
        if self.arch.name not in ARCHITECTURES.builtins and not (
            encoder.is_word_level or encoder.fixed_length
        ):
            check_parts(encoder, encoder)
        return encoder

    def scale(self, fraction: float) -> EncoderModel:
        """An encoder with this fraction of the widths and heads."""
        try:
            return self(**self.arch.config.scaled_options(fraction))
        except ToolkitError as error:
            raise ToolkitError(
                f"Architecture {self.arch.name!r} cannot be scaled by {fraction}: {error} Choose a "
                f"fraction that divides the number of heads, such as 0.5 or 0.3333."
            ) from error


def override_config(config: C, changes: Mapping[str, object], owner: str) -> C:
    """The config with some fields changed; unknown fields are an error."""
    known = [field.name for field in dataclasses.fields(config)]  # type: ignore[arg-type]
    for name in changes:
        if name not in known:
            raise ToolkitError(f"{owner} has no option {name!r}. {suggest_name(name, known)}")
    return dataclasses.replace(config, **changes)  # type: ignore[type-var]


ROWS_PER_CHUNK = 512
"""Rows of states whose scores over the vocabulary exist at a time."""


@torch.no_grad()
def token_metrics(prediction: Prediction) -> dict[str, Ratio]:
    """nll, the mean of -log p without label smoothing; ppl = exp(nll); accuracy."""
    total, correct = CrossEntropy(CrossEntropyConfig()).total(prediction), accuracy(prediction)
    return {
        "nll": Ratio(total, correct.weight),
        "ppl": Perplexity(total, correct.weight),
        "accuracy": correct,
    }


def accuracy(prediction: Prediction) -> Ratio:
    """Fraction of the targets that are the most probable class; IGNORED ones do not count."""
    logits, targets = prediction
    correct = (logits.argmax(-1) == targets).sum()
    return Ratio(correct.float(), (targets != IGNORED).sum().float())


def score_targets(
    states: Float[Tensor, "N E"],
    table: Float[Tensor, "V E"],
    bias: Float[Tensor, " V"] | None,
    cap: float | None,
    targets: Int[Tensor, " N"],
    begins: Bool[Tensor, " v"] | None = None,
) -> TargetScores:
    """log softmax(states @ table.T + bias), soft caps with `cap`, at the targets, in fp32 at least.

    bf16 would round differences between two sentences to ties.
    """
    with torch.autocast(states.device.type, enabled=False):
        x = states.to(torch.promote_types(states.dtype, torch.float32))
        weight, offset = table.to(x.dtype), None if bias is None else bias.to(x.dtype)
        found, size = [], ROWS_PER_CHUNK
        for rows, wanted in zip(x.split(size), targets.split(size), strict=True):
            scores = soft_cap(F.linear(rows, weight, offset), cap)  # (n, V)
            of_targets, total = scores.gather(1, wanted[:, None]), scores.logsumexp(1)
            columns = [of_targets[:, 0] - total, of_targets[:, 0] == scores.amax(1)]
            if begins is not None:
                log_p, alike = scores - total[:, None], F.pad(begins, (0, scores.shape[1]))
                alike = alike[wanted][:, None] == alike[: scores.shape[1]]
                entropy, rank = torch.special.entr(log_p.exp()), 1.0 + (scores > of_targets).sum(1)
                of_alike = log_p.masked_fill(~alike, -torch.inf).logsumexp(1)
                columns += [entropy.sum(1), rank, of_alike]
            found.append(columns)
    return TargetScores(*(torch.cat(parts) for parts in zip(*found, strict=True)))


def max_input_length(arch: ArchConfig | EncoderModel) -> int | None:
    """Maximum number of tokens, by an architecture's config or an encoder; None if unlimited."""
    return arch.max_length if isinstance(arch, ArchConfig) else arch.max_positions


def resolve_length(config: Any, arch: ArchConfig | EncoderModel, default: int = 0) -> Any:
    """The config with the default, as far as the architecture allows, for tokens_per_sample 0."""
    limit, tokens = max_input_length(arch), config.tokens_per_sample
    if limit and tokens > limit:
        raise ToolkitError(
            f"task.tokens_per_sample must be at most the architecture's maximum length, {limit}, "
            f"but is {tokens}. Lower it, or raise the architecture's "
            f"{'fixed_length' if arch.fixed_length else 'max_positions'}."
        )
    bounds = [bound for bound in (default, limit) if bound]
    return replace(config, tokens_per_sample=tokens or min(bounds, default=0))


def check_examples(
    examples: Examples[Any], encoder: EncoderModel, what: str, model: str = "the model"
) -> None:
    """Raise a ToolkitError unless an encoder can read all examples; `what` names their data."""
    limit, longest = encoder.max_positions, examples.longest
    if limit and longest > limit:
        option = "fixed-length" if encoder.fixed_length else "max-positions"
        raise ToolkitError(
            f"{model} reads at most {limit} tokens at a time, but the longest example of {what} "
            f"has {longest}. Choose --task.tokens-per-sample {limit}, or train a model with "
            f"--arch.{option} {longest}."
        )


ARCHITECTURE_KINDS = {
    "an encoder": "composite_bert, bert or another",
    "a causal language model": "transformer_lm",
    "an encoder-decoder model": "transformer, lightconv or dynamicconv",
}
"""Kind of architecture -> names for the error about another one."""


def check_architecture(encoder: EncoderModel, task: str, required: str) -> None:
    """Raise a ToolkitError unless the architecture is of the kind that a task needs."""
    kind = "an encoder"
    if isinstance(encoder, GenerativeModel):
        kind = "a causal language model" if encoder.decoder_only else "an encoder-decoder model"
    if kind != required:
        raise ToolkitError(
            f"Task {task} requires {required}, but this architecture is not one. Choose --arch "
            f"{ARCHITECTURE_KINDS[required]}."
        )


def wrong_training_error(
    what: str, options: str, given: str, model: str = "this one", more: str = ""
) -> ToolkitError:
    """The error about a model that was not trained for what is asked of it."""
    return ToolkitError(
        f"{what} requires a model trained with {options}; {model} was trained with {given}.{more}"
    )


@dataclass(frozen=True, kw_only=True)
class FeatureOptions(Options):
    """Options of every task that reads features from an encoder."""

    layer_mixing: bool = field(default=False, metadata=OF_MODEL)
    """Feed the head a learned weighted average of the states of all layers and of the embeddings,
    times a learned scale, instead of the last layer's states (Peters et al. 2018)."""
