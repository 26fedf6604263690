"""What tasks require of an architecture, a kind of model and a length, and commands of a task."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import OF_MODEL, Options
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import ArchConfig, EncoderModel


@runtime_checkable
class HasTokensPerSample(Protocol):
    """A task's config with a maximum length."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def tokens_per_sample(self) -> int: ...


C = TypeVar("C", bound=HasTokensPerSample)


def max_input_length(arch: ArchConfig | EncoderModel) -> int | None:
    """Maximum number of tokens, by an architecture's config or an encoder; None if unlimited."""
    return arch.max_length if isinstance(arch, ArchConfig) else arch.max_positions


def resolve_length(config: C, arch: ArchConfig | EncoderModel, default: int = 0) -> C:
    """The config with tokens_per_sample 0 replaced by the default, or what the architecture allows.

    Without a default and a limit it stays 0.
    """
    limit, tokens = max_input_length(arch), config.tokens_per_sample
    if limit and tokens > limit:
        raise ToolkitError(
            f"task.tokens_per_sample must be at most the architecture's maximum length, {limit}, "
            f"but is {tokens}. Lower it, or raise the architecture's "
            f"{'fixed_length' if arch.fixed_length else 'max_positions'}."
        )
    bounds = [bound for bound in (default, limit) if bound]
    return replace(config, tokens_per_sample=tokens or min(bounds, default=0))


def check_generative(encoder: EncoderModel, task: str, *, decoder_only: bool) -> None:
    """Raise a ToolkitError unless the architecture has the kind of decoder that a task needs."""
    if isinstance(encoder, GenerativeModel) and encoder.decoder_only == decoder_only:
        return
    if decoder_only:
        raise wrong_architecture_error(task, "a causal language model", "transformer_lm")
    known = "transformer, lightconv or dynamicconv"
    raise wrong_architecture_error(task, "an encoder-decoder model", known)


def check_encoder_only(encoder: EncoderModel, task: str, *, is_generative: bool) -> None:
    """Raise a ToolkitError if a task of encoders is combined with a decoder."""
    if isinstance(encoder, GenerativeModel) and not is_generative:
        raise wrong_architecture_error(task, "an encoder", "composite_bert, bert or another")


def wrong_architecture_error(task: str, required: str, known: str) -> ToolkitError:
    """The error about a task whose kind of model the architecture is not."""
    return ToolkitError(
        f"Task {task} requires {required}, but this architecture is not one. Choose --arch {known}."
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
