"""Translations of a split: BLEU, chrF, and a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from toolkit.common.files import write_output
from toolkit.criteria import Prediction
from toolkit.distributed import World
from toolkit.generation.generate import generate_best
from toolkit.generation.output import to_single_line
from toolkit.metrics.translation import CorpusScore, corpus_scores
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import EncoderModel
from toolkit.reporting.tables import Table
from toolkit.tasks.predictions import Event, ItemPrediction, Results
from toolkit.tasks.translation.examples import TranslationBatch, TranslationExamples

EMPTY_LENGTH = 1
"""Length of a source without words: its end symbol."""
LENGTH_FACTOR, LENGTH_OFFSET = 2, 20
"""Maximum length of a translation: factor x length of the source + offset."""


class TranslationResults(Results[TranslationBatch, ItemPrediction]):
    """The translations of a split."""

    def __init__(self, examples: TranslationExamples, beam: int) -> None:
        super().__init__(examples)
        self.split, self.beam = examples.split, beam
        self.translations: dict[int, str] = {}
        """Index of a pair -> translation of its source."""

    def update(self, batch: TranslationBatch, predictions: Mapping[str, Prediction]) -> None:
        """Predictions are unused: they are conditioned on the true target."""

    def update_from_encoder(self, encoder: EncoderModel, batch: TranslationBatch) -> None:
        """Translate the batch's sources; a blank one has an empty translation."""
        ids = batch.pair_ids.tolist()
        if ids[0] < 0:
            return
        assert isinstance(encoder, GenerativeModel), "checked when the task is built"
        padding, target = batch.inputs.padding, self.split.tokenizer.target
        width = batch.inputs.tokens.shape[1]
        lengths = [width] * len(ids) if padding is None else (~padding).sum(1).tolist()
        limits = [LENGTH_FACTOR * length + LENGTH_OFFSET for length in lengths]
        hypotheses = generate_best(
            encoder, batch.inputs, target.vocabulary, beam=self.beam, max_length=limits
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
        write_output("--predictions", path, "".join(f"{line}\n" for line in lines))
