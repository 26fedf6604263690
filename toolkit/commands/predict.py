"""toolkit-predict: the predictions of a fine-tuned model for raw text, line by line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from time import perf_counter
from typing import Any

from toolkit.commands.text_io import (
    Answer,
    InputRecord,
    WriteAnswers,
    open_answers,
    open_input,
    to_json_record,
)
from toolkit.common.errors import ToolkitError
from toolkit.common.files import STDOUT
from toolkit.common.json_files import is_json_object
from toolkit.common.registry import TASKS
from toolkit.common.system import keep_freed_memory
from toolkit.config.commands.checkpoints import PredictConfig
from toolkit.config.sections import DataConfig
from toolkit.data.formats.tagging.tokenizer import TaggingTokenizer
from toolkit.data.formats.tagging.treebanks import ConlluOptions, stream_conllu
from toolkit.data.preprocessing.input_files import list_saved_files
from toolkit.data.raw_items import (
    Fields,
    ItemValues,
    check_names,
    read_cells,
    read_item,
    rename_fields,
)
from toolkit.data.records import (
    LineStream,
    Record,
    read_csv,
    read_features,
    read_json_lines,
    read_rows,
    read_tab_cells,
    read_tsv,
)
from toolkit.data.text_files import check_exists
from toolkit.distributed import World, launch
from toolkit.optim.update import Precision, resolve_precision
from toolkit.reporting.console import Output, Progress
from toolkit.tasks.build import load_checkpoint
from toolkit.tasks.learner import Learner
from toolkit.tasks.predictions import TRUNCATED, Predictor, predict_batches
from toolkit.tasks.task import PredictsItems, wrong_training_error
from toolkit.training.data import batch_limits

READERS = {"text": read_tab_cells, "tsv": read_tsv, "csv": read_csv, "jsonl": read_json_lines}


def list_inputs(path: Path) -> list[Path]:
    """The files of a saved dataset, or the file itself."""
    if (path / "dataset_dict.json").is_file():
        names = ", ".join(sorted(folder.name for folder in path.iterdir() if folder.is_dir()))
        raise ToolkitError(
            f"--input must be one split, but {path} has {names}. Give its folder, as {path}/test."
        )
    return list_saved_files(path) if path.is_dir() else [check_exists("--input", path)]


def read_input(
    records: Iterable[Record], kind: str, fields: Fields, parse_item: Callable[[ItemValues], Any]
) -> Iterator[InputRecord]:
    """One record per line of plain text, or row."""
    read = read_plain if kind == "text" else read_item
    for index, record in enumerate(records):
        if index == 0 and kind == "text" and is_json_object("\t".join(record.values)):
            raise record.error(
                "the line must be plain text, but is a JSON object. Add --input-format jsonl."
            )
        if index == 0 and kind in ("tsv", "csv") and record.values is not None:
            try:
                check_names(fields, record.values)
            except ToolkitError as error:
                raise ToolkitError(f"{record.file}:1: {error}") from None
        values, problem, item = record.values, record.problem, None
        try:
            if not problem:
                item = parse_item(read(fields, values))
        except ToolkitError as error:
            problem = str(error)
        where = str(record.error(problem)) if problem else ""
        named = values if isinstance(values, dict) else None
        yield InputRecord(record.line, item, where, named)


def read_plain(fields: Fields, cells: Sequence[str]) -> ItemValues:
    """The parts of an item separated by tabs, without names."""
    try:
        return read_cells(fields, cells)
    except ToolkitError as error:
        one = sum(field.required for field in fields) == 1
        remedy = "Replace tabs by spaces." if one else "Separate the parts by tabs."
        raise ToolkitError(
            f"{error} {remedy} If the first line names the columns, add --input-format tsv."
        ) from None


def predict(c: PredictConfig) -> None:
    """Write one prediction per line of the input, in order."""
    keep_freed_memory()
    with launch(c.device) as world, Output(c.json if world.is_main else None) as output:
        if not world.is_main:
            return
        hint = "Type one item per line, its parts separated by tabs"
        with open_input(c.input, hint) if c.reads_lines else nullcontext(BytesIO()) as lines:
            learner = load_checkpoint(c.path, weights=c.weights).to(world.device)
            predictor = LinePredictor(c, learner, world)
            is_taken = c.output in STDOUT and output.to_stdout  # by JSON lines
            with nullcontext() if is_taken else predictor.open_answers() as write:
                predictor.run(lines, write, output, interactive=lines.isatty())


class LinePredictor:
    """Answers the lines of one input with a learner."""

    def __init__(self, c: PredictConfig, learner: Learner, world: World) -> None:
        self.c, self.learner, self.device = c, learner, world.device
        self.name = "standard input" if c.input == "-" else c.input
        self.predictor = find_predictor(c, learner)
        self.precision = Precision(resolve_precision(c.precision, world.device), world.device)
        tokenizer = learner.tokenizer
        column = tokenizer.tables.column if isinstance(tokenizer, TaggingTokenizer) else ""
        tag = "upos" if column in ("", "columns", "ptb") else column
        self.conllu = ConlluOptions(tag, untagged=True)
        self.lines = self.malformed = self.truncated = 0

    def open_answers(self) -> AbstractContextManager[WriteAnswers]:
        """Writes the predictions to --output."""
        columns = self.predictor.columns
        rows = [] if self.c.reads_lines else list_inputs(Path(self.c.input))
        features = read_features(rows[0]) if rows else b"{}"
        return open_answers(self.c.resolved_output, self.c.output, columns, self.conllu, features)

    def run(
        self,
        lines: Iterable[bytes],
        write: WriteAnswers | None,
        output: Output,
        *,
        interactive: bool,
    ) -> None:
        """Answer all lines, and report counts and speed on stderr."""
        started = perf_counter()
        records, size = self.read(lines), 1 if interactive else self.c.buffer_size
        quiet = self.c.output == "-" and sys.stdout.isatty()
        with Progress("predicting", None, "lines", quiet=quiet) as progress:
            while window := list(islice(records, size)):
                answers = list(self.answer(window))
                for answer in answers:
                    output.write("answer", to_json_record(*answer))
                if write:
                    write(answers)
                for record in (it for it in window if it.problem):
                    if self.c.on_malformed == "error":
                        raise ToolkitError(record.problem)
                    self.malformed += 1
                    print(record.problem, file=sys.stderr)
                self.lines += len(window)
                progress.advance(len(window))
        self.report(perf_counter() - started, output, interactive=interactive)

    def read(self, lines: Iterable[bytes]) -> Iterator[InputRecord]:
        """The records of the input."""
        c = self.c
        if c.resolved_input == "conllu":
            return (
                InputRecord(line, None if problem else it.words, problem, sentence=it)
                for line, it, problem in stream_conllu(lines, Path(self.name), self.conllu)
            )
        fields = rename_fields(self.predictor.named_fields, c.text_columns)
        if reader := READERS.get(c.resolved_input):
            records = reader(LineStream(Path(self.name), lines))
        else:
            records = chain.from_iterable(map(read_rows, list_inputs(Path(c.input))))
        return read_input(records, c.resolved_input, fields, self.predictor.parse)

    def answer(self, window: Sequence[InputRecord]) -> Iterator[Answer]:
        """The records with their predictions; without `skip` those before a malformed one."""
        if self.c.on_malformed == "error":
            problem = next((i for i, record in enumerate(window) if record.problem), len(window))
            window = window[:problem]
        items = [record.item for record in window if not record.problem]
        predictions = iter(self.predict(items) if items else ())
        for record in window:
            yield record, None if record.problem else next(predictions)

    def predict(self, items: Sequence[Any]) -> Sequence[Any]:
        batches = self.predictor.start(items)
        self.truncated += batches.examples.truncated
        c = DataConfig(max_tokens_valid=self.c.max_tokens, batch_size_valid=self.c.batch_size)
        longest = int(batches.examples.lengths.max(initial=0))
        max_tokens, batch_size = batch_limits(c, longest, self.device, training=False)
        with self.precision.autocast():
            return predict_batches(
                batches,
                self.learner,
                self.device,
                max_tokens=max_tokens,
                batch_size=batch_size,
                packs=self.learner.encoder.uses_packing,
            )

    def report(self, seconds: float, output: Output, *, interactive: bool) -> None:
        """Counts and speed."""
        rate = self.lines / max(seconds, 1e-9)
        counts = {"lines": self.lines, "malformed": self.malformed, "truncated": self.truncated}
        output.write("end", {**counts, "seconds": seconds, "lines_per_second": rate})
        kind = "sentence" if self.c.resolved_input == "conllu" else "line"
        unit = f"{kind}s"
        if not interactive:
            count = f"{self.lines:,} {kind if self.lines == 1 else unit}"
            print(f"{count} in {seconds:.1f} s: {rate:,.1f} {unit}/s.", file=sys.stderr)
        if self.malformed:
            skipped = f"{self.malformed:,} of {self.lines:,} {unit} were malformed"
            print(f"{skipped} and have no prediction.", file=sys.stderr)
        if self.truncated:
            print(f"{self.truncated:,} of {self.lines:,} {unit} {TRUNCATED}.", file=sys.stderr)


def find_predictor(c: PredictConfig, learner: Learner) -> Predictor[Any, Any]:
    """The predictor of the learner's task; raises if the task has none for this input."""
    task, name = learner.task, TASKS.find_name(type(learner.task))
    if not isinstance(task, PredictsItems):
        mode = f" Use toolkit-generate {task.generation_mode}." if task.generation_mode else ""
        options = "--task glue, pos_tagging, squad or another that classifies, tags or answers"
        raise wrong_training_error("toolkit-predict", options, f"--task {name}", c.path, mode)
    if c.resolved_input == "conllu" and not isinstance(learner.tokenizer, TaggingTokenizer):
        options, more = "--task pos_tagging or span_tagging", " Give text, a table or JSON lines."
        raise wrong_training_error(
            f"CoNLL-U, as in {c.input},", options, f"--task {name}", c.path, more
        )
    return task.predictor_class(task, learner.encoder, learner.tokenizer)
