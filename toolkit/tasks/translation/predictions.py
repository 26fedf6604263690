"""What a model writes for every source of a split: BLEU, chrF, and a file of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from toolkit.common.errors import ToolkitError
from toolkit.criteria import Prediction
from toolkit.data.formats.parallel.split import ParallelSplit
from toolkit.distributed import World
from toolkit.generation.generate import generate_best
from toolkit.generation.output import to_single_line
from toolkit.metrics.translation import CorpusScore, corpus_scores
from toolkit.reporting.tables import Table
from toolkit.tasks.predictions import PredictionCollector
from toolkit.tasks.translation.examples import TranslationBatch

EMPTY_LENGTH = 1
"""Length of a source without words: its end."""
LONGER, MORE = 2, 20
"""Symbols that may be written: so many for each of the source's, and so many more."""


class TranslationCollector(PredictionCollector):
    def __init__(self, split: ParallelSplit, beam: int) -> None:
        self.split, self.beam = split, beam
        self.translations: dict[int, str] = {}
        """Number of a pair -> what was written for its source."""

    def update(self, batch: TranslationBatch, predictions: Mapping[str, Prediction]) -> None:
        """Nothing: these follow the true target, and not what was written before."""

    def update_from_encoder(self, encoder: Any, batch: TranslationBatch) -> None:
        """Translate the batch's sources; blank ones become nothing, as in toolkit-generate."""
        rows = batch.pair_ids.tolist()
        if rows[0] < 0:
            return
        padding, words = batch.inputs.padding, self.split.tokenizer.target.vocabulary
        width = batch.inputs.tokens.shape[1]
        lengths = [width] * len(rows) if padding is None else (~padding).sum(1).tolist()
        most = [LONGER * length + MORE for length in lengths]
        found = generate_best(encoder, batch.inputs, words, beam=self.beam, max_length=most)
        decode = self.split.tokenizer.target.decode
        said = zip(found, lengths, strict=True)
        texts = (decode(ids) if length > EMPTY_LENGTH else "" for ids, length in said)
        self.translations |= dict(zip(rows, texts, strict=True))

    def sync(self, world: World) -> None:
        for text in world.all_gather(json.dumps(list(self.translations.items()))):
            self.translations |= {number: said for number, said in json.loads(text)}

    @cached_property
    def scores(self) -> list[CorpusScore]:
        """Against the references as they stand in the files, where the folder has them.

        In lower case where the target's vocabulary knows no other. None where the model could not
        be asked, being spread over ranks.
        """
        if not self.translations:
            return []
        numbers = sorted(self.translations)
        references = self.split.references(np.array(numbers))
        lowercase = self.split.tokenizer.target.lowercase
        said = [self.translations[number] for number in numbers]
        return corpus_scores(said, references, lowercase=lowercase)

    def compute(self) -> dict[str, float]:
        return {score.name: score.value for score in self.scores}

    def tables(self) -> Sequence[Table]:
        """How the scores were counted."""
        rows = [(s.name, s.signature, s.detail) for s in self.scores]
        return [Table(columns=("score", "signature", "detail"), rows=rows)] if rows else []

    def events(self) -> Sequence[tuple[str, dict[str, Any]]]:
        """An event for each score."""
        return [("score", score._asdict()) for score in self.scores]

    def write(self, path: Path) -> None:
        """A line for each pair of the split that was translated, in order."""
        lines = (to_single_line(self.translations[number]) for number in sorted(self.translations))
        text = "".join(f"{line}\n" for line in lines)
        try:
            path.write_text(text, "utf-8", newline="\n")
        except OSError as error:
            raise ToolkitError(
                f"predictions must be a file that can be written, but {path} is not: "
                f"{error.strerror}. Choose another with --predictions."
            ) from None
