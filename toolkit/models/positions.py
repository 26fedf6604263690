"""The position terms of an architecture: chosen by name, checked, and built into its layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import combinations
from typing import Annotated, Any, ClassVar, TypeVar

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import POSITIONS
from toolkit.config.declared import AtLeast, Options, Size, changed_options
from toolkit.models.encoder import Encoder, EncoderConfig, check_multiple, scale_heads, scale_width
from toolkit.models.interface import Sizes
from toolkit.models.switches import SwitchConfig, switch_attention
from toolkit.nn.attention import (
    Attention,
    Content,
    ContentChange,
    LinearProjections,
    Position,
    PositionOptions,
    Relative,
    Shape,
    SoftmaxMap,
    TableShape,
)
from toolkit.nn.attention.composite import ShawConfig
from toolkit.nn.attention.disentangled import DisentangledConfig
from toolkit.nn.attention.offset_terms import LocalRotaryConfig
from toolkit.nn.attention.position import check_shapes

C = TypeVar("C", bound="ChosenPositions")
SINGLE = {
    "embedding": "both are vectors added to the token embeddings",
    "values": "both add vectors to the values",
    "project": "both replace the projections",
}
"""Method that one term at most may define -> the reason."""
OF_SCORES = ("kernels", "terms", "changes", "values", "project", "shared")


@dataclass(frozen=True, kw_only=True)
class ChosenPositions(Options, section="arch"):
    """Options of architectures whose position terms are chosen by name."""

    positions: list[str] = field(default_factory=lambda: ["learned"])
    """How the order of tokens enters; several are added: none, learned, sinusoidal, rope, fixed,
    shaw, composite, alibi, t5, xl, deberta, and those of plugins. toolkit-train --list positions
    describes them."""

    decodes: ClassVar[bool] = False
    """Whether it has a decoder, which attends to the left only."""
    attends: ClassVar[bool] = True
    """Whether it has scores of queries and keys."""
    extended: ClassVar[Any] = None
    """The class without the options of plugins' terms, if they were added."""

    def __post_init__(self) -> None:
        if isinstance(self.positions, str):
            object.__setattr__(self, "positions", self.positions.split(","))
        super().__post_init__()
        c: Any = self  # the other options are those of architectures
        check_multiple("width", c.width, "heads", c.heads)
        self.check_positions()

    @property
    def position_names(self) -> list[str]:
        """The names of all terms."""
        return self.positions

    @property
    def term_classes(self) -> dict[str, type[Position[Any]]]:
        """The classes of all terms by name, in the order in which they are added."""
        names = self.position_names
        every = dict.fromkeys((*POSITIONS.builtins, *names))
        return {name: POSITIONS[name].factory for name in every if name in names}

    @property
    def terms(self) -> list[Position[Any]]:
        """All terms with their options."""
        return [cls(self.options_of(name)) for name, cls in self.term_classes.items()]

    @property
    def options_of_other_parts(self) -> frozenset[str]:
        """Options of position terms that other parts of the architecture read as well."""
        return frozenset()

    @property
    def max_length(self) -> int | None:
        c: Any = self
        limited = any(cls.limits_length for cls in self.term_classes.values())
        return c.max_positions if limited else None

    def complete(self: C) -> C:
        """The config with the options of all loaded terms, defaults of those that it lacks."""
        return self.with_options_of(POSITIONS.names())

    def narrow(self: C) -> C:
        """The config without the options of plugins' terms that are not chosen."""
        return self.with_options_of(self.term_classes)

    def with_options_of(self: C, names: Iterable[str]) -> C:
        """The config with its own options and those of terms."""
        terms = [POSITIONS[name].config for name in names if name not in POSITIONS.builtins]
        base: Any = self.extended or type(self)
        cls: Any = extend(base, tuple(type(term) for term in terms if fields(term)))
        if cls is type(self):
            return self
        values = {key: value for term in terms for key, value in vars(term).items()} | vars(self)
        return cls(**{field.name: values[field.name] for field in fields(cls)})

    def options_of(self, name: str) -> PositionOptions:
        """The options of a term: those of the architecture, and the defaults of others."""
        defaults: PositionOptions = POSITIONS[name].config
        own = {f.name: getattr(self, f.name) for f in fields(defaults) if hasattr(self, f.name)}
        return replace(defaults, **own)

    def attention_shape(self, heads: int | None = None, *, causal: bool = False) -> Shape:
        """The shape of the architecture's attention, or of some of its heads."""
        c: Any = self  # the other options are those of architectures
        dropouts = c.dropout, c.attention_dropout
        return Shape(c.width, heads or c.heads, c.width // c.heads, causal, *dropouts)

    def check_positions(self) -> None:
        """Raise a ToolkitError if the terms cannot be added, or an option has no effect."""
        names, head_width = self.positions, self.attention_shape().head_width
        if len({*names}) < max(1, len(names)) or ("none" in names and len(names) > 1):
            raise ToolkitError(
                f"arch.positions must be none, or one or more other terms, each once, but is "
                f"{','.join(names) or 'empty'}. Change arch.positions."
            )
        for pair in combinations(self.term_classes.items(), 2):
            if reason := find_conflict(*pair[0], *pair[1]):
                raise ToolkitError(
                    f"arch.positions must not contain both {pair[0][0]} and {pair[1][0]}: "
                    f"{reason}. Change arch.positions."
                )
        self.check_term_options()
        for name, cls in self.term_classes.items():
            cls(self.options_of(name))  # checks them
            if head_width % cls.head_multiple:
                raise ToolkitError(
                    f"The width of a head must be a multiple of {cls.head_multiple} with {name} "
                    f"in arch.positions, but arch.width / arch.heads is {head_width}."
                )
            if self.decodes and cls.reads_right:
                raise ToolkitError(
                    f"arch.positions must not contain {name} in models with a decoder, which "
                    f"attends to the left only. Change arch.positions."
                )
            if not self.attends and any(map(cls.overrides, OF_SCORES)):
                raise ToolkitError(
                    f"arch.positions must not contain {name} without self-attention, to which it "
                    f"is added. Choose sinusoidal, learned or none."
                )

    def check_term_options(self) -> None:
        """Raise if an option is set that only absent position terms read."""
        readers: dict[str, list[str]] = {}
        for name in dict.fromkeys((*POSITIONS.builtins, *POSITIONS.names())):
            for read in fields(POSITIONS[name].config):
                readers.setdefault(read.name, []).append(name)
        changed = changed_options(self) & readers.keys() - self.options_of_other_parts
        for option in sorted(changed):
            *terms, last = readers[option]
            unset = getattr(self, option) == getattr(POSITIONS[last].config, option)
            if not unset and self.term_classes.keys().isdisjoint(readers[option]):
                one_of = " or ".join(filter(None, [", ".join(terms), last]))
                raise ToolkitError(
                    f"arch.{option} requires {one_of} in arch.positions, now "
                    f"{', '.join(self.position_names)}. Add it, or leave arch.{option} out."
                )


@cache
def extend(config: Any, terms: tuple[type[PositionOptions], ...]) -> Any:
    """A config class with the options of plugins' terms."""
    if not terms:
        return config
    names = {"__module__": config.__module__, "extended": config}
    cls = type(config.__name__, (*dict.fromkeys(terms), config), names)
    return dataclass(frozen=True, kw_only=True)(cls)


def find_conflict(
    one: str, cls: type[Position[Any]], other: str, other_cls: type[Position[Any]]
) -> str:
    """Why two terms cannot be combined; empty if they can."""
    if other in cls.excludes:
        return cls.reason
    if one in other_cls.excludes:
        return other_cls.reason
    both = [why for it, why in SINGLE.items() if cls.overrides(it) and other_cls.overrides(it)]
    return both[0] if both else ""


@dataclass(frozen=True, kw_only=True)
class WindowConfig(Options, section="arch"):
    """Options of sliding windows."""

    attention_window: Annotated[int, AtLeast(2)] | None = None
    """Sliding-window attention: layers between global ones attend to tokens at a distance of up to
    half of it, on both sides; by default all layers are global."""
    global_every: Size = 3
    """With arch.attention_window, the first layer and every N-th layer after it are global."""


@dataclass(frozen=True, kw_only=True)
class PositionConfig(
    DisentangledConfig,
    WindowConfig,
    LocalRotaryConfig,
    ShawConfig,
    SwitchConfig,
    ChosenPositions,
    EncoderConfig,
):
    """Options of encoders whose position terms are chosen by name."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in sorted(changed_options(self) & {"global_every", "local_rope_base"}):
            if self.attention_window is None:
                raise ToolkitError(
                    f"arch.{name} requires arch.attention_window. Add it, or leave arch.{name} out."
                )

    def scaled_options(self, fraction: float) -> dict[str, int]:
        options, heads = super().scaled_options(fraction), scale_heads(self.heads, fraction)
        multiple = math.lcm(*(cls.head_multiple for cls in self.term_classes.values()))
        return {**options, "width": scale_width(self.width, fraction, multiple * heads)}


def build_encoder(
    c: PositionConfig,
    sizes: Sizes,
    attention: Callable[[], Attention],
    *,
    convolves: bool = False,
    groups: int = 1,
) -> Encoder:
    """The shared encoder; `convolves` says that positions also enter through convolutions."""
    width, neighbors = c.embedding_width or c.width, convolves or c.smeared_keys
    table = TableShape(width, c.max_positions, c.hidden_position_embedding, width**-0.5)
    check_plugins(c, c.attention_shape(), table)
    encoder = Encoder(
        c,
        sizes,
        switch_attention(c, build_attentions(c, attention)).__next__,
        takes_positions=any(term.encodes_order for term in c.terms) and not neighbors,
        positions=find_part(c, "embedding", table),
        offset_embedding=find_part(c, "shared", c.attention_shape()),
        groups=groups,
    )
    encoder.logit_cap = c.logit_cap
    if c.value_embeddings:
        encoder.add_value_tables(c.value_embeddings)
    if c.layer_average:
        encoder.layers.average_inputs()
    if c.weighted_residuals:
        encoder.layers.weight_residuals()
    return encoder


def check_plugins(c: ChosenPositions, shape: Shape, table: TableShape) -> None:
    """Raise a ToolkitError if a plugin's term gives a tensor of a wrong shape."""
    for name, term in zip(c.term_classes, c.terms, strict=True):
        if name not in POSITIONS.builtins:
            check_shapes(name, term, shape, table)


def build_attentions(c: PositionConfig, attention: Callable[[], Attention]) -> Iterator[Attention]:
    """The attention of each layer; those between global layers attend within the window."""
    for layer in range(c.layers):
        built = attention()
        if c.attention_window is not None and layer % c.global_every:
            for part in built.modules():
                if isinstance(part, SoftmaxMap):
                    part.window_radius = c.attention_window // 2
                if isinstance(part, ContentChange):
                    part.restrict()
        yield built


def build_attention(c: ChosenPositions) -> Attention:
    """softmax(q k^T / sqrt(K) + terms) v."""
    return Attention(c.attention_shape().width, build_projections(c), build_scores(c))


def build_projections(
    c: ChosenPositions, heads: int | None = None, **options: Any
) -> LinearProjections:
    """Queries, keys and values, with what the position terms change or add."""
    shape = c.attention_shape(heads)
    options["changes"] = [change for term in c.terms for change in term.changes(shape)]
    for term in c.terms:
        if (built := term.project(shape, **options)) is not None:
            return built
    return LinearProjections(shape.width, shape.heads, shape.head_width, **options)


def build_scores(
    c: ChosenPositions, heads: int | None = None, *, causal: bool = False
) -> SoftmaxMap:
    """The attention map: the product of contents and the position terms."""
    shape, terms = c.attention_shape(heads, causal=causal), c.terms
    kernels = [kernel for term in terms for kernel in term.kernels(shape)]
    summands = [summand for term in terms for summand in term.terms(shape)]
    return SoftmaxMap(
        Content(shape.head_width, max(term.products for term in terms)),
        [Relative(kernels), *summands] if kernels else summands,
        shape.attention_dropout,
        find_part(c, "values", shape),
    )


def find_part(c: ChosenPositions, method: str, shape: Shape | TableShape) -> Any:
    """What the only term with this method gives; None without such a term."""
    parts = (getattr(term, method)(shape) for term in c.terms)
    return next((part for part in parts if part is not None), None)
