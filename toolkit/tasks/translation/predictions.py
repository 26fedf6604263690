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
from toolkit.generation.generate import best
from toolkit.generation.output import on_a_line
from toolkit.metrics.translation import CorpusScore, corpus_scores
from toolkit.reporting.tables import Table
from toolkit.tasks.predictions import Answers
from toolkit.tasks.translation.examples import ParallelBatch

BLANK = 1
"""Length of a source without words: its end."""
LONGER, MORE = 2, 20
"""Symbols that may be written: so many for each of the source's, and so many more."""


class TranslationAnswers(Answers):
    def __init__(self, split: ParallelSplit, beam: int) -> None:
        self.split, self.beam = split, beam
        self.written: dict[int, str] = {}
        """Number of a pair -> what was written for its source."""

    def hear(self, batch: ParallelBatch, predictions: Mapping[str, Prediction]) -> None:
        """Nothing: these follow the true target, and not what was written before."""

    def look(self, encoder: Any, batch: ParallelBatch) -> None:
        """Translate the batch's sources; blank ones become nothing, as in toolkit-generate."""
        rows = batch.rows.tolist()
        if rows[0] < 0:
            return
        padding, words = batch.inputs.padding, self.split.codec.target.vocabulary
        width = batch.inputs.tokens.shape[1]
        lengths = [width] * len(rows) if padding is None else (~padding).sum(1).tolist()
        most = [LONGER * length + MORE for length in lengths]
        found = best(encoder, batch.inputs, words, beam=self.beam, most=most)
        decode = self.split.codec.target.decode
        said = zip(found, lengths, strict=True)
        texts = (decode(ids) if length > BLANK else "" for ids, length in said)
        self.written |= dict(zip(rows, texts, strict=True))

    def gather(self, world: World) -> None:
        for text in world.gather(json.dumps(list(self.written.items()))):
            self.written |= {number: said for number, said in json.loads(text)}

    @cached_property
    def scores(self) -> list[CorpusScore]:
        """Against the references as they stand in the files, where the folder has them.

        In lower case where the target's vocabulary knows no other. None where the model could not
        be asked, being spread over ranks.
        """
        if not self.written:
            return []
        numbers = sorted(self.written)
        references = self.split.references(np.array(numbers))
        lowercase = self.split.codec.target.lowercase
        said = [self.written[number] for number in numbers]
        return corpus_scores(said, references, lowercase=lowercase)

    def figures(self) -> dict[str, float]:
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
        lines = (on_a_line(self.written[number]) for number in sorted(self.written))
        text = "".join(f"{line}\n" for line in lines)
        try:
            path.write_text(text, "utf-8", newline="\n")
        except OSError as error:
            raise ToolkitError(
                f"predictions must be a file that can be written, but {path} is not: "
                f"{error.strerror}. Choose another with --predictions."
            ) from None
