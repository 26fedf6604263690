"""The input of the first layer: embeddings of tokens, token types and positions."""

from __future__ import annotations

from collections.abc import Collection
from copy import deepcopy

from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.nn.attention.absolute import find_range
from toolkit.nn.attention.position import PositionEmbedding
from toolkit.nn.ops.dropout import Dropout


class Embeddings(nn.Module):
    """W dropout(norm(s word [+ type] [+ position])).

    Encoders have a norm and s = 1 (Devlin et al. 2019, Fig. 2), and W projects to another `width`
    (Clark et al. 2020, section 3.2). Generative models have s = sqrt(D) and no norm (Vaswani et al.
    2017, sections 3.4 and 3.5). Parts that are `shared` belong to another module, and are no
    submodules here: they are counted, saved, wrapped and updated once.
    """

    words: nn.Embedding
    types: nn.Embedding | None
    positions: PositionEmbedding | None
    norm: nn.Module | None

    def __init__(
        self,
        words: nn.Embedding,
        types: nn.Embedding | None = None,
        positions: PositionEmbedding | None = None,
        norm: nn.Module | None = None,
        *,
        dropout: float,
        width: int,
        scale: float = 1.0,
        shared: Collection[str] = (),
    ) -> None:
        super().__init__()
        add_parts(self, shared, words=words, types=types, positions=positions, norm=norm)
        self.scale, self.dropout = scale, Dropout(dropout)
        self.widen = build_projection(words.embedding_dim, width)

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        positions: Int[Tensor, "B S"] | None = None,
        segments: Int[Tensor, "B S"] | None = None,
        start: int = 0,
    ) -> Float[Tensor, "B S D"]:
        """Without `positions`, the first token of each sentence is at `start`."""
        x: Tensor = self.words(tokens)
        if self.scale != 1:
            x = self.scale * x
        if self.types is not None:
            x = x + token_type_vectors(self.types, segments)
        if self.positions is not None:
            x = x + self.positions.vectors(x, positions, start)
        x = x if self.norm is None else self.norm(x)
        return self.widen(self.dropout(x))

    def share(self, width: int) -> Embeddings:
        """The same tables and norm; dropout and W are not shared (Clark et al. 2020, code)."""
        parts = {name: getattr(self, name) for name in ("words", "types", "positions", "norm")}
        return Embeddings(**parts, dropout=self.dropout.rate, width=width, shared=parts)


def add_parts(owner: nn.Module, shared: Collection[str], **parts: nn.Module | None) -> None:
    """Set attributes of a module; those that are `shared` do not become submodules."""
    for name, part in parts.items():
        if name in shared:
            vars(owner)[name] = part
        else:
            setattr(owner, name, part)


def copy_shared_parts(model: nn.Module) -> list[tuple[nn.Embedding, nn.Embedding]]:
    """Replace the shared parts of all modules by copies that they own; returns the tables, each
    with its copy.
    """
    tables = []
    for module in list(model.modules()):
        for name, part in list(vars(module).items()):
            if isinstance(part, nn.Module):
                del vars(module)[name]
                setattr(module, name, deepcopy(part))
                if isinstance(part, nn.Embedding):
                    tables.append((part, getattr(module, name)))
    return tables


def build_projection(width: int, new_width: int) -> nn.Module:
    """A linear map between two widths; the identity if they are equal."""
    return nn.Linear(width, new_width) if width != new_width else nn.Identity()


def token_type_vectors(types: nn.Embedding, segments: Tensor | None) -> Tensor:
    """Vectors of the token types; a single row serves both texts of a pair, as in RoBERTa."""
    if segments is None or types.num_embeddings == 1:
        return types.weight[0]
    return types(segments)


def check_token_ids(tokens: Int[Tensor, "B S"], rows: int) -> None:
    """Raise a ToolkitError if a token id has no row in the embedding table."""
    low, high = find_range(tokens)
    if low < 0 or high >= rows:
        raise ToolkitError(
            f"token ids must lie in 0 .. {rows - 1} for this model, but range from {low} to "
            f"{high}. Preprocess the data with the model's tokenizer."
        )
