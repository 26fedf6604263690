"""Translation (Sutskever et al. 2014; Vaswani et al. 2017), scored by BLEU and chrF.

B batch   S positions of a source   T positions of a target   N positions with a target token
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from toolkit.common.arrays import IntArray, ragged_arange
from toolkit.common.errors import ToolkitError
from toolkit.common.files import write_output
from toolkit.common.registry import register_task
from toolkit.config.declared import AtLeast, NonNegativeInt, Options
from toolkit.config.sections import BleuTokenizer
from toolkit.criteria import IGNORED, LazyPrediction, Prediction, project
from toolkit.data.formats.parallel import ParallelSplit
from toolkit.data.loading.batching import compute_fingerprint
from toolkit.data.raw_items import to_single_line
from toolkit.data.samples.sequence_pairs import TokenTexts
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.distributed import World
from toolkit.generation.generate import generate_best
from toolkit.metrics.translation import CorpusScore, corpus_scores
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import Encoded, EncoderModel, Inputs
from toolkit.reporting.tables import Table
from toolkit.tasks.examples import Examples, SplitSource, pad_to_multiple
from toolkit.tasks.predictions import Event, Results
from toolkit.tasks.task import C, E, Metric, Task, token_metrics


@dataclass(frozen=True, kw_only=True)
class TranslationConfig(Options, section="task"):
    """Options of the task translation."""

    tokens_per_sample: Annotated[int, AtLeast(2, or_zero=True)] = 0
    """Maximum number of tokens on either side, end symbol included; 0 for the architecture's
    maximum."""
    overlength: Literal["error", "skip", "truncate"] = "error"
    """How to handle longer pairs. error: stop; skip: omit them from training and truncate them in
    validation, where every pair counts; truncate: always truncate them."""
    validation_beam: NonNegativeInt = 1
    """Beam size for the translations that validation scores with BLEU and chrF; 1 is greedy search,
    0 disables them."""
    eval_bleu_tokenize: BleuTokenizer = "auto"
    """sacreBLEU's tokenization for BLEU. auto: its choice for the target language: zh, ja-mecab or
    ko-mecab, else 13a."""


OBJECTIVE = "translation"


class TranslationBatch(NamedTuple):
    """Sources and shifted targets."""

    inputs: Inputs
    """Sources, each followed by the end symbol."""
    previous: Int[Tensor, "B T"]
    """The end symbol, then the target; padding follows."""
    selected: Int[Tensor, " N"]
    """Flat indices of the positions of `previous` without padding into B x T; padding rows repeat
    index 0."""
    targets: Int[Tensor, " N"]
    """The token after each of these, the end symbol last; IGNORED in padding rows."""
    ids: Int[Tensor, " B"]
    """Index of each pair in the split; -1 for an idle rank."""
    weights: dict[str, float]
    sentences: int
    tokens: int
    """Tokens of both sides."""


class TranslationExamples(Examples[TranslationBatch]):
    """The pairs of one split."""

    def __init__(self, c: TranslationConfig, source: SplitSource) -> None:
        self.split = split = ParallelSplit(source.folder, source.name)
        self.row_multiple = source.row_multiple
        lengths = [side.lengths.astype(np.int64) for side in (split.source, split.target)]
        longest = np.maximum(*lengths)
        limit = c.tokens_per_sample - 1 if c.tokens_per_sample else int(longest.max())
        overlong = longest > limit
        if c.overlength == "error" and overlong.any():
            raise ToolkitError(
                f"Sentences may have at most {limit + 1} tokens, end symbol included, but pair "
                f"{longest.argmax()} of {split.name} in {split.folder.name} has "
                f"{longest.max() + 1}. Raise --tokens-per-sample as far as the architecture "
                f"allows, or choose --task.overlength skip or truncate."
            )
        skips = c.overlength == "skip" and source.training
        kept = ~overlong if skips else np.full(len(overlong), True)
        if len(kept) and not kept.any():
            raise ToolkitError(
                f"Every pair of {split.name} in {split.folder.name} has more than {limit + 1} "
                f"tokens, end symbol included. Raise --tokens-per-sample as far as the "
                f"architecture allows, or choose --task.overlength truncate."
            )
        self.pair_ids: IntArray = np.flatnonzero(kept)
        self._source, self._target = (np.minimum(side, limit)[kept] for side in lengths)
        self.lengths = np.maximum(self._source, self._target) + 1
        if count := int(overlong.sum()):
            handled = "truncated" if kept.all() else "skipped"
            self.remark = f"{count:,} with more than {limit + 1} tokens {handled}"
        options = (c.tokens_per_sample, c.overlength if overlong.any() else "")
        self.fingerprint = compute_fingerprint(split.folder.fingerprint, split.name, *options)

    def make_batch(self, ids: IntArray, epoch: int | float | None) -> TranslationBatch:
        ids = ids % len(self)
        pair_ids, split = self.pair_ids[ids], self.split
        source = split.source.take(pair_ids, self._source[ids])
        target = split.target.take(pair_ids, self._target[ids])
        vocabularies = split.tokenizer.vocabulary, split.tokenizer.target.vocabulary
        return make_pair_batch(
            OBJECTIVE, pair_ids, (source, target), vocabularies, self.row_multiple
        )


def make_pair_batch(
    objective: str,
    pair_ids: IntArray,
    texts: tuple[TokenTexts, TokenTexts],
    vocabularies: tuple[Vocabulary, Vocabulary],
    row_multiple: int,
) -> TranslationBatch:
    """Sources and targets, both with their vocabularies, as a batch."""
    (source, target), (read, generated) = texts, vocabularies
    inside = np.arange(int(target.lengths.max()) + 1) <= target.lengths[:, None]
    targets = add_eos(target, generated.sep, generated.pad, first=False)[inside]
    return TranslationBatch(
        inputs=to_source_inputs(source, read.sep, read.pad),
        previous=torch.from_numpy(add_eos(target, generated.sep, generated.pad, first=True)),
        selected=pad_to_multiple(np.flatnonzero(inside), 0, row_multiple),
        targets=pad_to_multiple(targets, IGNORED, row_multiple),
        ids=torch.from_numpy(pair_ids),
        weights={objective: float(len(targets))},
        sentences=len(pair_ids),
        tokens=int((source.lengths + target.lengths + 2).sum()),
    )


def add_eos(text: TokenTexts, eos: int, pad: int, *, first: bool) -> IntArray:
    """Each text preceded or followed by the end symbol, then padding, B x T."""
    rows, width = len(text.lengths), int(text.lengths.max()) + 1
    grid = np.full((rows, width), pad, np.int64)
    grid.reshape(-1)[ragged_arange(np.arange(rows) * width + first, text.lengths)] = text.ids
    grid[np.arange(rows), 0 if first else text.lengths] = eos
    return grid


def to_source_inputs(text: TokenTexts, eos: int, pad: int) -> Inputs:
    """Source sentences; padding is None if there is none."""
    tokens, lengths = add_eos(text, eos, pad, first=False), text.lengths + 1
    padding = np.arange(tokens.shape[1]) >= lengths[:, None]
    mask = torch.from_numpy(padding) if padding.any() else None
    return Inputs(tokens=torch.from_numpy(tokens), padding=mask)


EMPTY_LENGTH = 1
"""Length of a source without words: its end symbol."""
LENGTH_FACTOR, LENGTH_OFFSET = 2, 20
"""Maximum length of a translation: factor x length of the source + offset."""


class TranslationResults(Results[TranslationBatch, Any]):
    """The translations of a split."""

    def __init__(self, examples: TranslationExamples, beam: int, tokenize: str = "auto") -> None:
        super().__init__(examples)
        self.split, self.beam, self.tokenize = examples.split, beam, tokenize
        self.translations: dict[int, str] = {}
        """Index of a pair -> translation of its source."""

    def update(self, batch: TranslationBatch, predictions: Mapping[str, Prediction]) -> None:
        """Predictions are unused: they are conditioned on the true target."""

    def update_from_encoder(self, encoder: EncoderModel, batch: TranslationBatch) -> None:
        """Translate the batch's sources; a blank one has an empty translation."""
        ids = batch.ids.tolist()
        if ids[0] < 0:
            return
        padding, target = batch.inputs.padding, self.split.tokenizer.target
        width = batch.inputs.tokens.shape[1]
        lengths = [width] * len(ids) if padding is None else (~padding).sum(1).tolist()
        hypotheses = generate_best(
            *(cast(GenerativeModel, encoder), batch.inputs, target.vocabulary),
            beam=self.beam,
            max_length=[LENGTH_FACTOR * length + LENGTH_OFFSET for length in lengths],
        )
        for number, tokens, length in zip(ids, hypotheses, lengths, strict=True):
            self.translations[number] = target.decode(tokens) if length > EMPTY_LENGTH else ""

    def sync(self, world: World) -> None:
        for text in world.all_gather(json.dumps(list(self.translations.items()))):
            self.translations |= dict(json.loads(text))

    @cached_property
    def scores(self) -> list[CorpusScore]:
        """Scores against the reference lines, lowercased if the target's vocabulary is.

        Empty without references, or if a model sharded over ranks could not translate.
        """
        if not self.translations:
            return []
        ids = sorted(self.translations)
        return corpus_scores(
            [self.translations[number] for number in ids],
            self.split.references(np.array(ids)),
            language=self.split.tokenizer.target_lang,
            tokenize=self.tokenize,
            lowercase=self.split.tokenizer.target.lowercase,
        )

    def metrics(self) -> dict[str, float]:
        return {score.name: score.value for score in self.scores}

    def tables(self) -> Sequence[Table]:
        """The scores' signatures."""
        rows = [(s.name, s.signature, s.detail) for s in self.scores]
        return [Table(columns=("score", "signature", "detail"), rows=rows)] if rows else []

    def events(self) -> Sequence[Event]:
        """One event per score."""
        return [("score", score._asdict()) for score in self.scores]

    def write(self, path: Path) -> None:
        """One line per translated pair, in order."""
        lines = (to_single_line(self.translations[number]) for number in sorted(self.translations))
        write_output(path, "".join(f"{line}\n" for line in lines))


class SourceTargetTask(Task[C, E, TranslationBatch]):
    """-log p(y_t | y_1 .. y_{t-1}, x), t over the positions of the target and its end symbol.

    The decoder's first input is the end symbol. The only objective has the name of the task.
    """

    architecture_kind = "an encoder-decoder model"
    generation_mode = "translate"
    default_tokens = 0

    def special_tokens(self, vocabulary: Vocabulary) -> tuple[Sequence[int], Sequence[int]]:
        """The end symbol follows a source sentence."""
        return (), (vocabulary.sep,)

    def predict(self, encoder: EncoderModel, batch: TranslationBatch) -> dict[str, LazyPrediction]:
        decoder, inputs = cast(GenerativeModel, encoder), batch.inputs
        states = decoder.decode(
            batch.previous, encoder(inputs), inputs.padding, selected=batch.selected
        )[0]  # (N, D)
        table, [name] = decoder.output_embedding.weight, self.coefficients
        return {name: project(states, table, None, targets=batch.targets)}

    def continue_states(
        self,
        encoder: EncoderModel,
        source: Int[Tensor, "U S"],
        rows: Int[Tensor, " B"],
        previous: Int[Tensor, "B T"],
        selected: Int[Tensor, " N"],
    ) -> Float[Tensor, "N D"]:
        read = Encoded(encoder(Inputs(source)).states[rows])
        return cast(GenerativeModel, encoder).decode(previous, read, selected=selected)[0]  # (N, D)

    def metrics(
        self, predictions: Mapping[str, Prediction], batch: TranslationBatch
    ) -> Mapping[str, Metric]:
        """nll and ppl without label smoothing; accuracy."""
        [prediction] = predictions.values()
        return token_metrics(prediction)


@register_task("translation", TranslationConfig())
class Translation(SourceTargetTask[TranslationConfig, TranslationExamples]):
    """The target is a translation of the source."""

    coefficients: Mapping[str, float] = {OBJECTIVE: 1.0}
    collects_in_training = True
    examples_class = TranslationExamples

    def results(self, examples: TranslationExamples) -> TranslationResults | None:
        beam, tokenize = self.config.validation_beam, self.config.eval_bleu_tokenize
        return TranslationResults(examples, beam, tokenize) if beam else None
