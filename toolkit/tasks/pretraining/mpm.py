"""Masked position modeling together with masked language modeling (TACO, section 3.5)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from toolkit.common.arrays import HIDDEN_POSITION, IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_task
from toolkit.config.declared import ADVANCED, OF_MODEL, Fraction, PositiveInt, Size
from toolkit.criteria import IGNORED, Classes, LazyPrediction, Prediction, project
from toolkit.data.raw_items import split_at_spaces
from toolkit.data.samples.masking import PositionMasking
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.words import WORDS
from toolkit.generation.output import MaskPrediction
from toolkit.models.heads import PositionHead, TiedHead, build_token_head
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.tasks.examples import SplitSource, TargetBatch
from toolkit.tasks.pretraining.mlm import (
    SCORINGS,
    MaskedExamples,
    MaskingConfig,
    MaskingStrategy,
    OpenFraction,
    TokenTask,
    check_length,
    check_sum,
)
from toolkit.tasks.task import EncoderFactory, Metric, accuracy, wrong_training_error

OBJECTIVES = ("mlm", "mpm")


@dataclass(frozen=True, kw_only=True)
class MaskedPositionConfig(MaskingConfig):
    """Options of the task mpm."""

    masking: MaskingStrategy = "span"
    """Which tokens are selected. span: runs of words as in SpanBERT and TACO; bernoulli: each
    independently; exact: an exact fraction; whole_word: all subwords of a word; frequency: an exact
    fraction, rare tokens more often; pmi: collocations and other words; electra: drawn with
    replacement, as for ELECTRA's generator."""
    objectives: str = field(default="mlm,mpm", metadata=OF_MODEL)
    """Objectives, separated by commas. mlm: masked tokens; mpm: masked positions."""
    position_rate: OpenFraction = 0.15
    """Fraction of positions to predict."""
    position_span_max: Size = 6
    """Maximum number of positions in a span."""
    position_span_p: OpenFraction = 0.2
    """Parameter of the geometric distribution of these spans' lengths."""
    hidden_position_rate: Fraction = 0.8
    """Fraction of the spans whose positions are hidden."""
    shuffled_position_rate: Fraction = 0.1
    """Fraction of the spans whose positions are shuffled; the rest remain."""
    position_range: Literal["sentence", "full_table"] = field(default="sentence", metadata=ADVANCED)
    """Range of the new position of a shuffled span of one. sentence: the positions of the sentence;
    full_table: 0 to max_position, as in the paper, beyond the end of most sentences."""
    max_position: PositiveInt = field(default=511, metadata=ADVANCED)
    """Highest position that position_range full_table draws; the architecture must have it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.objective_names or set(self.objective_names) - set(OBJECTIVES):
            raise ToolkitError(
                f"task.objectives must be mlm, mpm or mlm,mpm, but is {self.objectives!r}."
            )
        rates = (self.hidden_position_rate, self.shuffled_position_rate)
        check_sum("hidden_position_rate and shuffled_position_rate", rates)

    @property
    def objective_names(self) -> list[str]:
        return [name.strip() for name in self.objectives.split(",") if name.strip()]


class MaskedPositionsBatch(NamedTuple):
    """Sentences with masked tokens, then the same with masked positions: one pass for both."""

    inputs: Inputs
    selected: Int[Tensor, " N"]
    """Flat indices of the selected positions of the first half, then of the second half."""
    token_targets: Int[Tensor, " M"]
    """Original tokens of the first; IGNORED in padding rows."""
    position_targets: Int[Tensor, " P"]
    """Original positions of the second; IGNORED in padding rows."""
    weights: dict[str, float]
    sentences: int
    tokens: int


class MaskedPositionExamples(MaskedExamples):
    """The sentences of one split; every epoch masks other tokens and positions."""

    scheduled: ClassVar[tuple[str, ...]] = ("task.mask_rate", "task.position_rate")
    idle_values: ClassVar[Mapping[str, int]] = {
        "token_targets": IGNORED,
        "position_targets": IGNORED,
    }

    def __init__(self, config: MaskedPositionConfig, source: SplitSource) -> None:
        super().__init__(config, source)
        self._positions = PositionMasking(
            tokens_per_sample=config.tokens_per_sample,
            rate=config.position_rate,
            span_max=config.position_span_max,
            span_p=config.position_span_p,
            hidden_rate=config.hidden_position_rate,
            shuffled_rate=config.shuffled_position_rate,
            random_below=config.max_position + 1 if config.position_range == "full_table" else None,
        )

    def make_batch(self, ids: IntArray, epoch: int | float | None) -> MaskedPositionsBatch:
        objectives, halves = self.config.objective_names, dict[str, TargetBatch]()
        if "mlm" in objectives:
            halves["mlm"] = super().make_batch(ids, epoch)
        if "mpm" in objectives:
            sentences = self._samples.read_batch(ids % len(self))
            masking = replace(self._positions, rate=self.scheduled_value("position_rate", epoch))
            positions, masked = masking.apply(sentences, self.noise(ids, epoch))
            halves["mpm"] = self.to_batch(
                "mpm",
                sentences,
                masked,
                masked.positions,
                tokens=sentences.tokens,
                positions=positions,
            )
        return concatenate_halves({name: halves[name] for name in objectives})


def concatenate_halves(halves: dict[str, TargetBatch]) -> MaskedPositionsBatch:
    """One batch of both halves, or of the only one; masked tokens keep their positions."""
    empty = torch.zeros(0, dtype=torch.long)
    tokens, positions = halves.get("mlm"), halves.get("mpm")
    first, *_ = halves.values()
    inputs, selected = first.inputs, first.selected
    if tokens and positions:
        second = positions.inputs
        assert second.positions is not None, "the second half has masked positions"
        in_order = torch.arange(second.tokens.shape[1]).expand_as(second.tokens)
        padding, segments = second.padding, second.segments
        inputs = Inputs(
            tokens=torch.cat([tokens.inputs.tokens, second.tokens]),
            positions=torch.cat([in_order, second.positions]),
            segments=None if segments is None else torch.cat([segments, segments]),
            padding=None if padding is None else torch.cat([padding, padding]),
            max_position=second.max_position,
        )
        selected = torch.cat([tokens.selected, positions.selected + tokens.inputs.tokens.numel()])
    return MaskedPositionsBatch(
        inputs=inputs,
        selected=selected,
        token_targets=tokens.targets if tokens else empty,
        position_targets=positions.targets if positions else empty,
        weights={name: half.weights[name] for name, half in halves.items()},
        sentences=first.sentences,
        tokens=sum(half.tokens for half in halves.values()),
    )


HIDDEN_WORD = re.compile(r"\{([^ {}]+)\}")


HiddenWord = tuple[str, int, int]
"""A word whose position is hidden: its text, its first token in the sentence, number of tokens."""


def encode_hidden_words(tokenizer: Tokenizer, sentence: str) -> tuple[list[int], list[HiddenWord]]:
    """[CLS] words [SEP], and the words in braces, or all words if there are no braces.

    In scripts without spaces a word is one of `WORDS`, so braces may enclose part of a sentence.
    """
    vocabulary, words = tokenizer.vocabulary, split_at_spaces(sentence)
    for word in words:
        if re.search("[{}]", HIDDEN_WORD.sub("", word)):
            raise ToolkitError(
                f"Braces must enclose single words, but are {word[:60]!r}. Write {{a}} {{b}} "
                f"instead of {{a b}}."
            )
    parts = HIDDEN_WORD.split(" ".join(words))  # those in braces are every second one
    part_of = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    text, spans = "".join(parts), dict[int, tuple[int, int]]()
    for number, match in enumerate(WORDS.finditer(text)):
        first, end = match.span()
        braced = [part for part in part_of[first:end].tolist() if part % 2]
        if braced or len(parts) == 1:  # several words in one pair of braces move as one
            key = braced[0] if braced else number
            spans[key] = spans.get(key, (first, end))[0], end
    owners = np.full(len(text) + 1, -1)
    for number, (first, end) in enumerate(spans.values()):
        owners[first:end] = number
    _, _, starts, ends = offsets = tokenizer.encode_with_offsets([text])
    found = [
        int(owners[start : max(end, start + 1)].max())
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    hidden = [
        (text[first:end], 1 + found.index(number), found.count(number))
        for number, (first, end) in enumerate(spans.values())
        if number in found
    ]
    return [vocabulary.cls, *offsets.ids.tolist(), vocabulary.sep], hidden


def check_orderable(
    sentence: str, ids: Sequence[int], hidden: Sequence[HiddenWord], limit: int | None
) -> None:
    """Raise a ToolkitError if the sentence has too few words to order, or too many tokens."""
    if len(hidden) < 2:
        raise ToolkitError(
            f"The sentence must have at least two words to order, but has {len(hidden)}: "
            f"{sentence[:60]!r}. Put braces around more words, or around none to order all."
        )
    check_length(sentence, len(ids), limit)


@register_task("mpm", MaskedPositionConfig())
class MaskedPositionModel(
    TokenTask[MaskedPositionConfig, MaskedPositionExamples, MaskedPositionsBatch]
):
    """-log p(x_i | masked x, all p) - log p(p_j | all x, masked p) (TACO, eq. 3 and 4).

    i over the selected tokens of one copy of a sentence, j over the selected positions of another;
    each term is averaged over its own positions.
    """

    examples_class, scorings = MaskedPositionExamples, SCORINGS

    def __init__(
        self, c: MaskedPositionConfig, encoder: EncoderModel, make_encoder: EncoderFactory
    ) -> None:
        super().__init__()
        self.coefficients = dict.fromkeys(c.objective_names, 1.0)
        if "mlm" in self.coefficients:
            self.head = build_token_head(encoder)
        if "mpm" in self.coefficients:
            check_position_ids(encoder)
            rows = encoder.max_positions
            if c.position_range == "full_table" and rows and c.max_position >= rows:
                raise ToolkitError(
                    f"task.max_position must be below arch.max_positions, but is "
                    f"{c.max_position} and the table has {rows} rows. Set --task.max-position "
                    f"{rows - 1}."
                )
            full = c.position_range == "full_table"  # else those of a sentence
            self.position_head = PositionHead(
                encoder, c.max_position + 1 if full else c.tokens_per_sample
            )

    def predict(
        self, encoder: EncoderModel, batch: MaskedPositionsBatch
    ) -> dict[str, LazyPrediction]:
        states = encoder.select_states(batch.inputs, batch.selected)  # (N, D)
        tokens = len(batch.token_targets)
        predictions: dict[str, LazyPrediction] = {}
        if "mlm" in self.coefficients:
            words, output = states[:tokens], partial(project, targets=batch.token_targets)
            predictions["mlm"] = self.head(words, encoder.token_embedding.weight, output)
        if "mpm" in self.coefficients:
            logits = self.position_head.scores(encoder, states[tokens:])
            predictions["mpm"] = Classes(logits, batch.position_targets)
        return predictions

    def metrics(
        self, predictions: Mapping[str, Prediction], batch: MaskedPositionsBatch
    ) -> Mapping[str, Metric]:
        """Fraction of the selected positions whose most probable token or position is correct."""
        return {f"{name}_accuracy": accuracy(p) for name, p in predictions.items()}

    def token_head(self, encoder: EncoderModel) -> tuple[EncoderModel, TiedHead]:
        self.check_objective("mlm", "Predicting tokens")
        return encoder, self.head

    @torch.no_grad()
    def order_words(
        self, encoder: EncoderModel, tokenizer: Tokenizer, sentence: str, top: int
    ) -> tuple[str, list[MaskPrediction]]:
        """The most probable order of the hidden words, and the `top` positions of each.

        Hidden words exchange places: the assignment with the largest sum of log-probabilities. That
        of a word in a place is the sum over its tokens, the i-th at the i-th position of the place
        or at its last. Positions are those of first tokens, from 1, without [CLS].
        """
        self.check_objective("mpm", "Ordering words")
        ids, hidden = encode_hidden_words(tokenizer, sentence)
        check_orderable(sentence, ids, hidden, self.position_head.bias.numel())
        free = [start + i for _, start, count in hidden for i in range(count)]
        device = encoder.token_embedding.weight.device
        positions = torch.arange(len(ids))
        positions[free] = HIDDEN_POSITION
        inputs = Inputs(
            torch.tensor([ids], device=device),
            positions=positions[None].to(device),
            max_position=len(ids) - 1,
        )
        states = encoder.select_states(inputs, torch.tensor(free, device=device))
        logits = self.position_head.scores(encoder, states)[:, free]
        log_p = score_places(logits.float().log_softmax(-1).cpu(), hidden)
        from scipy.optimize import linear_sum_assignment  # slow to import

        _, places = linear_sum_assignment(log_p.numpy(), maximize=True)
        order = dict(zip(places.tolist(), hidden, strict=True))
        ordered, end = list[int](), 0
        for place, (_, old, count) in enumerate(hidden):
            _, start, moved = order[place]
            ordered += ids[end:old] + ids[start : start + moved]
            end = old + count
        predictions = []
        for (word, *_), row in zip(hidden, log_p.exp(), strict=True):
            best = row.topk(min(top, len(hidden)))
            pairs = zip(best.values.tolist(), best.indices.tolist(), strict=True)
            predictions.append([(f"{word} {hidden[i][1]}", p) for p, i in pairs])
        return tokenizer.decode([*ordered, *ids[end:-1]][1:]), predictions

    def check_objective(self, name: str, what: str) -> None:
        if name not in self.coefficients:
            given = ", ".join(self.coefficients)
            raise wrong_training_error(what, "--task.objectives mlm,mpm", given)


def score_places(log_p: Float[Tensor, "N N"], hidden: Sequence[HiddenWord]) -> Float[Tensor, "W W"]:
    """log p of each of W hidden words in each place, from those of their N tokens at N positions.

    The places of a word have a total probability of 1.
    """
    counts = torch.tensor([count for _, _, count in hidden])
    starts = counts.cumsum(0) - counts
    scores = [
        torch.stack([log_p[n + i, starts + (counts - 1).clamp(max=i)] for i in range(count)]).sum(0)
        for n, count in zip(starts.tolist(), counts.tolist(), strict=True)
    ]
    return torch.stack(scores).log_softmax(-1)


def check_position_ids(encoder: EncoderModel) -> None:
    """An encoder must see positions only through ids; a table must have a row for hidden ones."""
    if not encoder.takes_positions:
        raise ToolkitError(
            "Task mpm requires an encoder that sees positions only through position ids, but "
            "this one also has convolutions, or no positions at all. Choose --arch taco, or bert "
            "with --arch.positions rope or another term."
        )
    if encoder.position_embedding is None and encoder.max_positions is not None:
        raise ToolkitError(
            "Task mpm requires a row for hidden positions in the table of positions, but this one "
            "has none. Set --arch.hidden-position-embedding true."
        )
