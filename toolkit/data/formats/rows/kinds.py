"""Kinds of rows: with a class or a number, tags, a question, or translations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby, product, zip_longest
from pathlib import Path
from string import ascii_uppercase
from typing import Any, ClassVar

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_format
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.formats.classification.format import (
    ClassificationFormat,
    LabeledTable,
    TableRow,
    parse_label,
    split_text_columns,
)
from toolkit.data.formats.classification.split import (
    UNDECIDED,
    ClassificationTokenizer,
    TableSchema,
)
from toolkit.data.formats.format import (
    MAX_QUOTED,
    Format,
    MalformedOptions,
    Problem,
    check_malformed,
    parse_records,
)
from toolkit.data.formats.parallel import FilePair, NumberedPair, ParallelFormat
from toolkit.data.formats.qa import multiple_choice, squad
from toolkit.data.formats.qa.format import ChoiceQuestion, Passage, QaFormat, QuestionSource
from toolkit.data.formats.rows.format import LabeledRows, RowsConfig, read_class_names
from toolkit.data.formats.tagging.format import TaggingFormat
from toolkit.data.formats.tagging.tokenizer import TaggingTokenizer
from toolkit.data.formats.tagging.treebanks import MISSING_TAG, TaggedFile, TaggedSentence
from toolkit.data.preprocessing.choose_tokenizer import choose_tokenizer_for_texts
from toolkit.data.preprocessing.input_files import list_benchmark_files
from toolkit.data.preprocessing.workers import WorkerPool
from toolkit.data.raw_items import (
    Fields,
    InputField,
    describe,
    find_names,
    rename_fields,
    split_at_spaces,
    to_single_line,
)
from toolkit.data.records import Record
from toolkit.data.tokenizers.tokenizer import ParallelTokenizer, Tokenizer


class ClassifiedRows(
    LabeledRows[list[LabeledTable], ClassificationTokenizer], ClassificationFormat
):
    """A text, or two, with a class or a number."""

    options: RowsConfig
    naming = "--text-columns (words with a tag each: --words-column and --tags-column)"

    def check(self) -> None:
        super().check()
        self.label_column = self.options.label_column or "label"
        names = self.options.text_columns
        columns = split_text_columns(names) if names else ()
        parts = ("sentence1", "sentence2") if len(columns) == 2 else ("sentence",)
        self.item_columns = {part: name for part, [name] in zip(parts, columns, strict=False)}
        number = self.options.label_type == "number"
        self.schema = TableSchema(
            name="rows",
            text_columns=columns or (("sentence", "text"),),
            is_regression=number,
            metrics=("pearson", "spearman") if number else ("accuracy",),
        )
        self.fields = [InputField(names) for names in self.schema.text_columns]

    def stratum(self, values: Any) -> object:
        column, number = self.label_column, self.schema.is_regression
        return values.get(column) if isinstance(values, dict) and not number else ""

    def read_table(self, path: Path) -> LabeledTable:
        problems = list[Problem]()
        names = read_class_names(path).get(self.label_column, [])
        if names and not self.schema.classes:
            self.schema = replace(self.schema, classes=tuple(names))

        def parse(number: int, record: Record) -> TableRow:
            texts = self.read_values(record, self.fields).values()
            lines = tuple(to_single_line(str(text)).strip() for text in texts)
            return TableRow(record.line, number, lines, self.read_label(record, names))

        return LabeledTable(path, [*parse_records(self.records(path), parse, problems)], problems)

    def read_label(self, record: Record, names: Sequence[str]) -> str | None:
        """The label as the tables of GLUE have it; None without one, which only tests may lack."""
        column, is_test = self.label_column, self.split == "test"
        value = record.values.get(column) if is_test else record.value(column)
        if is_test and value in (None, "", -1):
            return None
        if isinstance(value, list | dict):
            raise ValueError(f"the answer must be a text or a number, but is {describe(value)}.")
        if names and isinstance(value, int):
            value = {-1: UNDECIDED, **dict(enumerate(names))}.get(value)
        return parse_label("" if value is None else str(value).strip(), self.schema)


class TaggedRows(LabeledRows[list[TaggedFile], TaggingTokenizer], TaggingFormat):
    """Words, as a list or with spaces, and a list of their tags: lines of a file of columns."""

    options: RowsConfig
    naming = "--words-column and --tags-column"

    def check(self) -> None:
        super().check()
        self.tag_column = "columns"
        words, tags = self.options.words_column, self.options.tags_column
        self.words = InputField((words,) if words else ("words", "tokens"), "words")
        self.tags = InputField((tags or "tags",), "tags")
        self.item_columns = {"words": words} if words else {}

    def read_file(self, path: Path, *, untagged: bool) -> Iterator[TaggedSentence]:
        names = read_class_names(path).get(self.tags.name, [])
        untagged = untagged or self.split == "test"
        sentences, problems = list[TaggedSentence](), list[Problem]()

        def parse(number: int, record: Record) -> TaggedSentence:
            has_tags = isinstance(record.values, dict) and self.tags.name in record.values
            fields = [self.words] if untagged and not has_tags else [self.words, self.tags]
            values = self.read_values(record, fields)
            words = values[self.words.name]
            tags = values.get(self.tags.name, [MISSING_TAG] * len(words))
            named = [name_tag(tag, names) for tag in tags]
            return make_sentence(words, named, record.line, is_first=not sentences)

        for sentence in parse_records(self.records(path), parse, problems):
            sentences.append(sentence)
        labeled = any(tag != MISSING_TAG for sentence in sentences for tag in sentence.tags)
        check_malformed(problems, self.options.on_malformed, labeled=labeled)
        self.left_out[self.split] += problems
        if sentences:
            last = sentences.pop()
            sentences.append(last._replace(source=last.source + b"\n"))
        return iter(sentences)


def make_sentence(
    words: Sequence[str], tags: Sequence[str], row: int, *, is_first: bool
) -> TaggedSentence:
    """A sentence whose source is a line for each word, after a blank one unless it is the first."""
    if len(words) != len(tags):
        raise ValueError(f"each word must have a tag, but {len(words)} words have {len(tags)}.")
    if not words:
        raise ValueError("the row must have words, but has none.")
    blank = "" if is_first else "\n"
    sentence, offset = TaggedSentence.empty(), len(blank)
    for word, tag in zip(words, tags, strict=True):
        if not word or len(split_at_spaces(tag)) != 1:
            raise ValueError(f"a word must have a tag without spaces, but {word!r} has {tag!r}.")
        start = offset + len(word.encode()) + 1
        offset = start + len(tag.encode()) + 1
        sentence.add(word, tag, (start, offset - 1), row)
    lines = (f"{word}\t{tag}\n" for word, tag in zip(words, tags, strict=True))
    return sentence._replace(source="".join([blank, *lines]).encode())


def name_tag(tag: object, names: Sequence[str]) -> str:
    """A tag as text; a number is that of a name if there are names."""
    if isinstance(tag, int) and 0 <= tag < len(names):
        return names[tag]
    if names and isinstance(tag, int):
        raise ValueError(f"a tag must be a number below {len(names)}, but is {tag}.")
    return str(tag).strip()


START = "answer_start"


class QuestionRows(LabeledRows[list[QuestionSource], Tokenizer], QaFormat):
    """Base class of questions in rows."""

    options: RowsConfig
    fields: Fields
    labels: ClassVar[Sequence[str]]

    def check(self) -> None:
        super().check()
        self.fields = rename_fields(self.fields, self.options.text_columns)
        self.item_columns = {field.name: field.column for field in self.fields if field.column}

    def read_label(self, record: Record) -> Any:
        """The value in the column of the label, which only test files may lack."""
        names = (self.options.label_column,) if self.options.label_column else self.labels
        values = record.values if isinstance(record.values, dict) else {}
        column = next(filter(values.__contains__, names), names[0])
        return values.get(column) if self.split == "test" else record.value(column)


class ChoiceRows(QuestionRows, multiple_choice.MultipleChoiceFormat):
    """A context, options, and the correct one: its number from 0, its letter, or its text."""

    fields, labels = multiple_choice.FIELDS, ("label", "answer", "answerKey")

    def read_source(self, split: str, path: Path) -> QuestionSource:
        problems = list[Problem]()
        passages = merge_passages(parse_records(self.records(path), self.parse_passage, problems))
        return QuestionSource(path, passages, problems)

    def parse_passage(self, number: int, record: Record) -> Passage:
        """The context of a row, with its question."""
        values = self.read_values(record, self.fields)
        try:
            context, options, completed = multiple_choice.parse_choices(values)
        except ToolkitError as error:
            raise ValueError(str(error)) from None
        answer = self.parse_answer(record, options)
        return Passage(context, choices=(ChoiceQuestion(str(number), completed, answer, ""),))

    def parse_answer(self, record: Record, options: Sequence[str]) -> int | None:
        """The index of the correct option; None if it is unknown."""
        value = self.read_label(record)
        if self.split == "test" and value in (None, "", -1):
            return None
        nested = record.values[find_names(self.fields[-1], record.values)[0]]
        named = [str(name) for name in nested.get("label", ())] if isinstance(nested, dict) else []
        numbers = [str(number) for number in range(len(options))]
        for known in (named,) if named else (numbers, [*ascii_uppercase[: len(options)]], options):
            if (text := str(value).strip()) and text in known:
                return known.index(text)
        raise ValueError(
            f"the answer must be one of {', '.join(named or numbers)}, or the letter or the text "
            f"of an option, but is {text[:MAX_QUOTED]!r}."
        )


@register_format("swag", MalformedOptions())
def build_swag_format(options: MalformedOptions, config: PreprocessConfig) -> ChoiceRows:
    """SWAG's csv: rows with sent1, sent2, ending0, ending1, ..., label."""
    names = {"train": ("train.csv",), "valid": ("val.csv",), "test": ("test.csv",)}
    files = list_benchmark_files(config.inputs, names).items()
    inputs: Any = {f"{split}pref": ",".join(map(str, paths)) for split, paths in files}
    rows = RowsConfig(label_type="option", on_malformed=options.on_malformed)
    return ChoiceRows(rows, replace(config, **inputs))


class AnswerRows(QuestionRows, squad.SquadFormat):
    """A question, a context, and answers: a list, a pair of lists, or a text and its offset."""

    fields, labels = squad.FIELDS, ("answers", "answer_text")

    def read_source(self, split: str, path: Path) -> QuestionSource:
        limit, is_test = self.config.max_line_bytes, split == "test"
        reader = squad.SquadReader(path, limit, split != "train", not is_test)
        known = not is_test or any(self.read_answers(record) for _, record in self.records(path))

        def parse(number: int, record: Record) -> Passage | None:
            question, context = self.read_values(record, self.fields).values()
            answers = self.read_answers(record)
            asked = {"id": record.values.get("id", number), "question": question}
            impossible = record.values.get("is_impossible", known and not answers)
            asked |= {"answers": answers, "is_impossible": impossible}
            return reader.read_paragraph(str(record.line), {"context": context, "qas": [asked]})

        passages = filter(None, parse_records(self.records(path), parse, reader.problems))
        return reader.finish(merge_passages(passages))

    def read_answers(self, record: Record) -> Any:
        """The answers of a row as SQuAD's list."""
        found = self.read_label(record)
        if isinstance(found, list):
            return found
        values = record.values if isinstance(record.values, dict) else {}
        pairs: Iterable[Sequence[Any]] = [(found, values.get(START))]
        if isinstance(found, Mapping):
            lists = (found.get(name) for name in ("text", START))
            pairs = zip_longest(*(it if isinstance(it, list) else [it] for it in lists))
        return [make_answer(*pair) for pair in pairs if pair[0] not in (None, "")]


def make_answer(text: object, start: object) -> dict[str, object]:
    """An answer as SQuAD has it; tables have offsets as text, or as 12.0 in columns with gaps."""
    number = re.fullmatch(r"(\d+)(\.0)?", str(start))
    offset = {} if start is None else {START: int(number[1]) if number else start}
    return {"text": text, **offset}


def merge_passages(passages: Iterable[Passage]) -> list[Passage]:
    """One passage for the questions of consecutive rows with the same text."""
    merged = []
    for text, group in groupby(passages, lambda passage: passage.text):
        questions, choices = zip(*((it.questions, it.choices) for it in group), strict=True)
        merged.append(Passage(text, [*chain(*questions)], [*chain(*choices)]))
    return merged


NESTED = "translation"
"""Column of Hugging Face that holds the sentences of a row by their languages."""


class TranslatedRows(LabeledRows[list[FilePair], ParallelTokenizer], ParallelFormat):
    """A sentence in two languages, in two columns or one; a file is both files of a pair."""

    options: RowsConfig

    def check(self) -> None:
        super().check()
        languages = [InputField((language,)) for language in self.languages]
        self.fields = rename_fields(languages, self.options.text_columns)

    def read_split(self, split: str, files: Sequence[Path]) -> list[FilePair]:
        return [(path, path) for path in files]

    def read_pairs(self, split: str, files: FilePair) -> Iterator[NumberedPair]:
        """The rows of a split in a file, with their sentences as lines."""
        self.split, problems = split, list[Problem]()
        yield from parse_records(self.records(files[0]), self.parse_pair, problems)
        check_malformed(problems, self.options.on_malformed, labeled=True)
        self.left_out[split] = list(dict.fromkeys([*self.left_out[split], *problems]))

    def parse_pair(self, number: int, record: Record) -> NumberedPair:
        """The sentences of a row as lines."""
        if isinstance(record.values, dict) and isinstance(record.values.get(NESTED), Mapping):
            record = record._replace(values=dict(record.values[NESTED]))
        texts = self.read_values(record, self.fields)
        source, target = (to_single_line(texts[name]).strip() for name in self.languages)
        return record.line, source, target

    def choose_one(
        self,
        pairs: Sequence[FilePair],
        sides: Sequence[int],
        folder: Path,
        pool: WorkerPool,
        config: PreprocessConfig,
    ) -> Tokenizer:
        texts = (
            it[2] if side else it[1]
            for files, side in product(pairs, sides)
            for it in self.read_pairs("train", files)
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
