"""Output of toolkit-predict: plain text, tables, JSON lines and CoNLL-U."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from toolkit.commands.prediction_input import InputRecord
from toolkit.commands.text_io import open_results
from toolkit.common import json_files
from toolkit.data.formats.tagging.conllu import ConlluOptions
from toolkit.data.formats.tagging.conllu_stream import replace_sentence_tags
from toolkit.generation.output import TextFile
from toolkit.tasks.predictor import ItemPrediction
from toolkit.tasks.tagging.predictor import TagPrediction
from toolkit.tasks.tagging.span_predictor import SpanPrediction

FormatLine = Callable[[InputRecord, ItemPrediction | None], str]
"""The text for a record and its prediction, which is None for a malformed line."""


@contextmanager
def open_output(path: str, *, silent: bool) -> Iterator[TextFile | None]:
    """The file or standard output, which is left alone if `silent`."""
    if path == "-":
        yield None if silent else sys.stdout
        return
    with open_results("--output", path) as file:
        yield file


def format_cells(record: InputRecord, prediction: ItemPrediction | None, *, columns: int) -> str:
    """The cells of the prediction separated by tabs; empty ones for a malformed line."""
    cells: Sequence[str] = prediction.to_row() if prediction else [""] * columns
    return "\t".join(cells) + "\n"


def to_json_record(record: InputRecord, prediction: ItemPrediction | None) -> dict[str, object]:
    """{"line": 1, "id": ..., "label": ...}; for a malformed line {"line": 1, "problem": ...}."""
    name = {} if record.id is None else {"id": record.id}
    values = prediction._asdict() if prediction else {"problem": record.problem}
    return {"line": record.line, **name, **values}


def format_json(record: InputRecord, prediction: ItemPrediction | None) -> str:
    """The prediction for a record as a JSON line."""
    return json_files.dumps(to_json_record(record, prediction)) + "\n"


def format_conllu(
    record: InputRecord, prediction: ItemPrediction | None, *, options: ConlluOptions
) -> str:
    """The sentence with the predicted tags in their column; a malformed one is unchanged."""
    assert record.sentence is not None, "the input is CoNLL-U"
    tags = (
        prediction.tags
        if isinstance(prediction, TagPrediction | SpanPrediction)
        else record.sentence.tags
    )
    return replace_sentence_tags(record.sentence, tags, options)
