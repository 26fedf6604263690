"""Position terms as components: what each adds to an encoder or a decoder.

A term is a subclass of `Position` under `@register_position(name, options)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import Options
from toolkit.nn.attention.inputs import AttentionInputs, Offsets, SequenceContext
from toolkit.nn.attention.kernels import Kernel, OffsetValues
from toolkit.nn.attention.projections import LinearProjections
from toolkit.nn.attention.terms import ContentChange, ScoreTerm


@dataclass(frozen=True, kw_only=True)
class PositionOptions(Options, section="arch"):
    """Base class of the options of position terms, which become options of architectures."""


O = TypeVar("O", bound=PositionOptions)  # noqa: E741


class Shape(NamedTuple):
    """The attention that terms are added to."""

    width: int
    """Width of the model."""
    heads: int
    head_width: int
    causal: bool = False
    """Whether tokens attend to the left only, as in decoders."""
    dropout: float = 0.0
    attention_dropout: float = 0.0


class TableShape(NamedTuple):
    """The embeddings that vectors of positions are added to."""

    width: int
    max_positions: int
    hidden: bool = False
    """Whether there are hidden positions, with the id -1."""
    scale: float = 1.0
    """Factor of vectors without parameters."""


class PositionEmbedding(nn.Module, ABC):
    """Vectors of positions, added to those of the tokens."""

    max_positions: int | None = None
    """Maximum number of tokens in a sentence; None if any length works."""

    @abstractmethod
    def vectors(
        self, x: Float[Tensor, "B S _"], ids: Int[Tensor, "B S"] | None, start: int = 0
    ) -> Float[Tensor, "#B S E"]:
        """Vectors of the position ids of tokens x; None means start, start + 1, ... in each row."""


OffsetVectors = tuple[Float[Tensor, "R E"], Int[Tensor, " O"] | None]
"""Vectors of the offsets -m .. m of a batch, shared by all layers, and the row of each offset, if
several share one; O = 2 m + 1."""


class Position(Generic[O]):
    """What a position term adds: to the scores, their queries and keys, the values, the input."""

    excludes: ClassVar[tuple[str, ...]] = ()
    """Terms that it cannot be combined with."""
    reason: ClassVar[str] = ""
    """Why not."""
    reads_right: ClassVar[bool] = False
    """Whether it needs keys on both sides, so that decoders cannot have it."""
    head_multiple: ClassVar[int] = 1
    """A divisor of the width of heads."""
    limits_length: ClassVar[bool] = False
    """Whether arch.max_positions is the maximum number of tokens in a sentence."""

    def __init__(self, options: O) -> None:
        self.options = options

    @property
    def products(self) -> int:
        """Products of contents and positions in the scores, whose scale it divides."""
        return 1

    @property
    def encodes_order(self) -> bool:
        """Whether anything depends on positions."""
        return True

    def kernels(self, shape: Shape) -> Sequence[Kernel]:
        """Numbers per query and offset within a radius; those of all terms are summed first."""
        return []

    def terms(self, shape: Shape) -> Sequence[ScoreTerm]:
        """Summands of the scores."""
        return []

    def changes(self, shape: Shape) -> Sequence[ContentChange]:
        """Changes of the queries and keys of the product of contents."""
        return []

    def values(self, shape: Shape) -> OffsetValues | None:
        """Vectors per offset that are added to the values."""
        return None

    def embedding(self, shape: TableShape) -> PositionEmbedding | None:
        """Vectors that are added to the token embeddings."""
        return None

    def shared(self, shape: Shape) -> nn.Module | None:
        """A module that maps the largest offset of a batch to the `OffsetVectors` of all layers."""
        return None

    def project(self, shape: Shape, **options: Any) -> LinearProjections | None:
        """Projections in place of the linear ones, with the same options."""
        return None

    @classmethod
    def overrides(cls, method: str) -> bool:
        """Whether the term defines a method."""
        return getattr(cls, method) is not getattr(Position, method)


TOKENS, SENTENCES = 3, 2
"""What terms of plugins are tried on."""


@torch.no_grad()
def check_shapes(name: str, term: Position[Any], shape: Shape, table: TableShape) -> None:
    """Raise a ToolkitError if what a term adds has a wrong shape for sentences of three tokens."""
    n, t, h, k = SENTENCES, TOKENS, shape.heads, shape.head_width
    owner = f" of position term {name!r}"
    of_head, x = torch.zeros(n, h, t, k), torch.zeros(n, t, shape.width)
    sequence = SequenceContext(Offsets(None, t, x.device), causal=shape.causal)
    p = AttentionInputs(of_head, of_head, of_head, x, sequence)
    for part in (*term.kernels(shape), *term.terms(shape)):
        check_summand(part, p, part(p), owner)
    if (values := term.values(shape)) is not None:
        got = values(torch.zeros(n, h, t, t), sequence.offsets)
        check_shape(owner, values, got, sentences=[n], heads=[h], queries=[t], columns=[k])
    for change in term.changes(shape):
        for got in change(p)[:2]:
            check_shape(owner, change, got, sentences=[n, 1], heads=[h], tokens=[t], columns=[k])
    if (embedding := term.embedding(table)) is not None:
        got = embedding.vectors(torch.zeros(n, t, table.width), None)
        check_shape(owner, embedding, got, sentences=[n, 1], tokens=[t], columns=[table.width])


@torch.no_grad()
def check_parts(model: nn.Module, run: Callable[[Tensor], object]) -> None:
    """Raise a ToolkitError if a kernel or a score term of a plugin has a wrong shape when the model
    reads two sentences of three tokens.
    """
    parts = [part for part in model.modules() if isinstance(part, Kernel | ScoreTerm)]
    own = [part for part in parts if not type(part).__module__.startswith("toolkit.")]
    hooks = [
        it.register_forward_hook(lambda it, p, got: check_summand(it, p[0], got)) for it in own
    ]
    if hooks:
        model.eval()
        run(torch.zeros(SENTENCES, TOKENS, dtype=torch.long))
        model.train()
    for hook in hooks:
        hook.remove()


def check_summand(part: nn.Module, p: AttentionInputs, got: object, owner: str = "") -> None:
    """Raise a ToolkitError unless a kernel has taps and a score term scores for the queries p."""
    sentences, heads, queries, _ = p.q.shape
    axes = {"sentences": (sentences, 1), "heads": (heads, 1)}
    if isinstance(part, Kernel):
        check_shape(owner, part, got, **axes, queries=(queries, 1), taps=ODD)
    else:
        check_shape(owner, part, got, **axes, queries=(queries,), keys=(p.k.shape[2],))


ODD = range(1, 2**20, 2)


def check_shape(owner: str, part: nn.Module, got: object, **axes: Sequence[int]) -> None:
    """Raise a ToolkitError unless a tensor has one of the allowed sizes in each axis."""
    sizes = tuple(got.shape) if isinstance(got, Tensor) else ()
    allowed = [size in axis for size, axis in zip(sizes, axes.values(), strict=False)]
    if len(sizes) != len(axes) or not all(allowed):
        required = ", ".join(
            f"{'an odd number of' if axis is ODD else ' or '.join(map(str, axis))} {label}"
            for label, axis in axes.items()
        )
        raise ToolkitError(
            f"{type(part).__name__}{owner} must return a tensor of the shape "
            f"({required}) for {SENTENCES} sentences of {TOKENS} tokens, but returned "
            f"{sizes or type(got).__name__}."
        )
