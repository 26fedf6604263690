"""What tasks require of an architecture: a kind of model, and a length."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from toolkit.common.errors import ToolkitError
from toolkit.config.sections import require
from toolkit.models.interface import EncoderModel


@runtime_checkable
class SupportsGeneration(Protocol):
    """A model with a decoder."""

    decoder_only: bool

    def decode(self, *given: Any, **named: Any) -> Any: ...
    def scores(self, states: Any) -> Any: ...


@runtime_checkable
class HasMaxLength(Protocol):
    """The config of an architecture that knows its maximum length."""

    @property
    def max_length(self) -> int | None: ...


@runtime_checkable
class HasMaxPositions(Protocol):
    """The config of an architecture with a position table, or an encoder."""

    max_positions: int | None


@runtime_checkable
class HasTokensPerSample(Protocol):
    """The config of a task."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def tokens_per_sample(self) -> int: ...


C = TypeVar("C", bound=HasTokensPerSample)


def max_input_length(arch: object) -> int | None:
    """Maximum number of tokens, by an architecture's config or an encoder; None if unlimited."""
    if isinstance(arch, HasMaxLength):
        return arch.max_length
    return arch.max_positions if isinstance(arch, HasMaxPositions) else None


def resolve_length(config: C, arch: object, default: int | None = None) -> C:
    """The config with tokens_per_sample 0 replaced by the default, or what the architecture allows.

    Without a default and a limit it stays 0.
    """
    limit, tokens = max_input_length(arch), config.tokens_per_sample
    require(
        not limit or tokens <= limit,
        f"task.tokens_per_sample must be at most the architecture's maximum length, {limit}, but "
        f"is {tokens}. Lower it, or raise the architecture's max_positions.",
    )
    bounds = [bound for bound in (default, limit) if bound]
    return replace(config, tokens_per_sample=tokens or min(bounds, default=0))


def check_generative(encoder: EncoderModel, task: str, *, decoder_only: bool) -> None:
    if isinstance(encoder, SupportsGeneration) and encoder.decoder_only == decoder_only:
        return
    wanted = "a causal language model" if decoder_only else "an encoder-decoder model"
    known = "transformer_lm" if decoder_only else "transformer, lightconv or dynamicconv"
    raise ToolkitError(
        f"Task {task} requires {wanted}, but {type(encoder).__name__} is not one. Choose --arch "
        f"{known}."
    )


def check_encoder_only(encoder: EncoderModel, task: str, *, is_generative: bool) -> None:
    if isinstance(encoder, SupportsGeneration) and not is_generative:
        raise ToolkitError(
            f"Task {task} requires an encoder, but {type(encoder).__name__} has a decoder. Choose "
            f"another architecture, or --task translation or language_modeling."
        )
