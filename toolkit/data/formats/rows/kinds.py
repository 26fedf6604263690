"""Rows with translations, and the choice of a kind of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from toolkit.common.registry import register_format
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.formats.format import Format, Problem, check_malformed, parse_records
from toolkit.data.formats.parallel import BLOCK_LINES, FilePair, LineBlock, ParallelFormat
from toolkit.data.formats.rows.format import LabeledRows, RowsConfig
from toolkit.data.formats.rows.labels import ClassifiedRows, TaggedRows
from toolkit.data.formats.rows.questions import AnswerRows, ChoiceRows
from toolkit.data.preprocessing.choose_tokenizer import choose_tokenizer_for_texts
from toolkit.data.preprocessing.workers import WorkerPool
from toolkit.data.raw_items import InputField, rename_fields, to_single_line
from toolkit.data.records import Record
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.wrapped import ParallelTokenizer

NESTED = "translation"
"""Column of Hugging Face that holds the sentences of a row by their languages."""


class TranslatedRows(LabeledRows[list[FilePair], ParallelTokenizer], ParallelFormat):
    """A sentence in two languages, in two columns or one; a file is both files of a pair."""

    options: RowsConfig

    def check(self) -> None:
        super().check()
        self.fields = [InputField((language,)) for language in self.languages]
        if self.options.text_columns:
            self.fields = [*rename_fields(self.fields, self.options.text_columns.split(","))]

    def read_split(self, split: str, files: Sequence[Path]) -> list[FilePair]:
        return [(path, path) for path in files]

    def read_pairs(
        self, split: str, path: Path, problems: list[Problem]
    ) -> Iterator[tuple[Record, list[str]]]:
        """The rows of a split in a file, with their sentences as lines."""
        self.split = split
        yield from parse_records(self.records(path), self.parse_pair, problems)
        check_malformed(problems, self.options.on_malformed, labeled=True)

    def parse_pair(self, number: int, record: Record) -> tuple[Record, list[str]]:
        """The sentences of a row as lines."""
        if isinstance(record.values, dict) and isinstance(record.values.get(NESTED), Mapping):
            record = record._replace(values=dict(record.values[NESTED]))
        texts = self.read_values(record, self.fields)
        return record, [to_single_line(texts[name]).strip() for name in self.languages]

    def read_blocks(self, split: str, content: list[FilePair]) -> Iterator[LineBlock]:
        for files in content:
            pairs, first, reported = self.read_pairs(split, files[0], self.left_out[split]), 0, 0
            while block := list(islice(pairs, BLOCK_LINES)):
                source, target = ([pair[side] for _, pair in block] for side in (0, 1))
                numbers, read_bytes = [it.line for it, _ in block], block[-1][0].read_bytes
                yield LineBlock(files, first, numbers, source, target, read_bytes - reported)
                first, reported = first + len(block), read_bytes

    def choose_one(
        self,
        pairs: Sequence[FilePair],
        sides: Sequence[int],
        folder: Path,
        pool: WorkerPool,
        config: PreprocessConfig,
    ) -> Tokenizer:
        rows = ((side, path) for path, _ in pairs for side in sides)
        texts = (
            pair[side] for side, path in rows for _, pair in self.read_pairs("train", path, [])
        )
        return choose_tokenizer_for_texts(config, texts, folder, pool)


KINDS: dict[str, Callable[[RowsConfig, PreprocessConfig], Format[Any, Any]]] = {
    "tsv": ClassifiedRows,
    "columns": TaggedRows,
    "parallel": TranslatedRows,
    "swag": ChoiceRows,
    "squad": AnswerRows,
}
"""Format of files -> that of rows with the same data."""


@register_format("rows", RowsConfig())
def build_rows_format(options: RowsConfig, config: PreprocessConfig) -> Format[Any, Any]:
    """Labeled rows, of the kind that the options say."""
    return KINDS[options.like](options, config)
