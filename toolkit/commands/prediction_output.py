"""Output of toolkit-predict: plain text, tables, JSON lines and CoNLL-U."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from toolkit.commands.prediction_input import InputRecord
from toolkit.common import json_files
from toolkit.common.output_files import STDOUT, open_output
from toolkit.data.formats.tagging.conllu import ConlluOptions
from toolkit.data.formats.tagging.conllu_stream import replace_sentence_tags
from toolkit.generation.output import TextFile
from toolkit.reporting.json_output import Output
from toolkit.tasks.predictor import ItemPrediction
from toolkit.tasks.tagging.predictor import TagPrediction
from toolkit.tasks.tagging.span_predictor import SpanPrediction

FormatLine = Callable[[InputRecord, ItemPrediction | None], str]
"""The text for a record and its prediction, which is None for a malformed line."""


def open_predictions(path: str, output: Output) -> AbstractContextManager[TextFile | None]:
    """The file or standard output; None if that is for JSON lines."""
    is_taken = path in STDOUT and output.to_stdout
    return nullcontext() if is_taken else open_output("--output", path)


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
