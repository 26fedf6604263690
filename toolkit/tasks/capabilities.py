"""What tasks that write ask of an architecture."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.config.sections import require


@runtime_checkable
class SupportsGeneration(Protocol):
    """A decoder, alone or behind an encoder."""

    decoder_only: bool

    def decode(self, *given: Any, **named: Any) -> Any: ...
    def scores(self, states: Any) -> Any: ...


@runtime_checkable
class HasMaxLength(Protocol):
    """The config of an architecture that knows how long its sentences may be."""

    @property
    def max_length(self) -> int | None: ...


def check_generative(encoder: nn.Module, task: str, *, decoder_only: bool) -> None:
    """The task's architectures are those that write, from a source or from nothing."""
    if isinstance(encoder, SupportsGeneration) and encoder.decoder_only == decoder_only:
        return
    wanted = "a decoder alone" if decoder_only else "an encoder and a decoder"
    known = "transformer_lm" if decoder_only else "transformer, lightconv or dynamicconv"
    raise ToolkitError(
        f"task {task} must have an architecture of {wanted}, but {type(encoder).__name__} is "
        f"another. Choose --arch {known}."
    )


def resolve_max_tokens(tokens: int, arch: Any) -> int:
    """Tokens of a sentence as asked for, or else as many as the architecture takes; 0: any."""
    longest = arch.max_length if isinstance(arch, HasMaxLength) else None
    require(
        not longest or tokens <= longest,
        f"task.tokens_per_sample must be at most what the architecture reads at once, {longest}, "
        f"but is {tokens}. Lower it, or raise the architecture's max_positions.",
    )
    return tokens or longest or 0


def check_encoder_only(encoder: nn.Module, task: str, *, is_generative: bool) -> None:
    """All other tasks read the states of an encoder alone."""
    if isinstance(encoder, SupportsGeneration) and not is_generative:
        raise ToolkitError(
            f"task {task} must have an architecture that reads alone, but {type(encoder).__name__} "
            f"writes. Choose another, or --task translation or language_modeling."
        )
