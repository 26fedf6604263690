"""From tagged files to a data folder: words, tags, and the text they stand in."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.formats.tagging import report
from toolkit.data.formats.tagging.conllu import MISSING_TAG
from toolkit.data.formats.tagging.files import list_tagged_files, read_file
from toolkit.data.formats.tagging.label_tables import COMPLETE, LabelTables, build_tables
from toolkit.data.formats.tagging.sentence import TaggedSentence, check_has_sentences, raise_at_line
from toolkit.data.formats.tagging.tokenizer import TaggingTokenizer
from toolkit.data.preprocessing.choose_tokenizer import load_given_tokenizer
from toolkit.data.preprocessing.output_folder import create_output_folder, report_write_errors
from toolkit.data.storage.column_writer import ColumnWriter
from toolkit.data.storage.meta import META_FILE, build_meta, write_meta
from toolkit.data.storage.word_vectors import VECTORS_FILE, read_word_vectors
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.vocabulary import write_symbols
from toolkit.reporting.json_output import Output

KIND, TYPES_FILE = "tagged", "types.txt"
COLUMNS = {"types": "<i4", "tags": "<u2", "fields": "<i4", "source": "<u1"}
UNSEEN = 65535  # in place of a tag that training does not have
UNTAGGED = 65534  # in place of one that is not known
SETTINGS = ("format", "tag", "empty_nodes", "vocabulary_from", "type_fraction", "min_count")


class File(NamedTuple):
    path: Path
    sentences: list[TaggedSentence]


def preprocess_tagged(config: PreprocessConfig) -> None:
    """Read every split, learn or take the tables, write the columns, and meta.json last."""
    begun = time.perf_counter()
    with (
        Output(config.json) as output,
        create_output_folder(Path(config.destdir), overwrite=config.overwrite) as folder,
    ):
        splits = {name: read_split(name, config) for name in ("train", "valid", "test")}
        splits = {name: files for name, files in splits.items() if files}
        tokenizer = build_tokenizer(config, splits)
        unseen = {
            name: count_unseen_tags(files, tokenizer.tables, config)
            for name, files in splits.items()
        }
        types = Counter(w for files in splits.values() for s in sentences(files) for w in s.words)
        with report_write_errors(config.destdir):
            tokenizer.save(folder)
            text = write_symbols(list(types))
            (folder / TYPES_FILE).write_text(text, encoding="utf-8", newline="\n")
            found = write_vectors(config, tokenizer, folder)
            place = {word: number for number, word in enumerate(types)}
            written = {
                name: {**write_split(name, files, tokenizer.tables, place, folder), **unseen[name]}
                for name, files in splits.items()
            }
            meta = build_meta(
                folder,
                tokenizer,
                kind=KIND,
                settings=settings_of(config, tokenizer),
                splits=written,
                more_files=[TYPES_FILE, VECTORS_FILE] if found else [TYPES_FILE],
            )
            write_meta(folder / META_FILE, meta)
        seconds = time.perf_counter() - begun
        report.print_summary(config.destdir, tokenizer, meta, found, seconds, output)


def read_split(name: str, config: PreprocessConfig) -> list[File]:
    files, untagged = [], name != "train" and config.unseen_tags == "wrong"
    for path in list_tagged_files(name, config):
        found = list(read_file(path, config, untagged=untagged))
        check_has_sentences(path, found)
        check_sentence_lengths(path, found, config.max_item_tokens)
        files.append(File(path, found))
    return files


def sentences(files: Sequence[File]) -> list[TaggedSentence]:
    return [sentence for file in files for sentence in file.sentences]


def check_sentence_lengths(path: Path, found: Sequence[TaggedSentence], most: int) -> None:
    for sentence in found:
        if most and len(sentence.words) > most:
            raise_at_line(
                path,
                sentence.lines[0],
                f"a sentence must have at most {most} words, but has {len(sentence.words)}. Raise "
                f"--max-item-tokens; models read longer sentences in chunks.",
            )


def build_tokenizer(
    config: PreprocessConfig, splits: Mapping[str, Sequence[File]]
) -> TaggingTokenizer:
    """Words of the text itself, or pieces that an option names; tables given with them or learned.

    Tables learned on other tags would mean other labels.
    """
    given = load_given_tokenizer(config)
    column = config.tag if config.format == "conllu" else config.format
    if isinstance(given, TaggingTokenizer):
        if given.tables.column != column:
            raise ToolkitError(
                f"tokenizer_from must be of the same tags, but {config.tokenizer_from} is of "
                f"{given.tables.column} and the text of {column}. Choose another --tag or --format."
            )
        if config.vocabulary_from != "train" or config.type_fraction != 1:
            raise ToolkitError(
                "vocabulary_from and type_fraction must be those of tokenizer_from, but are given "
                "beside "
                "it. Leave them out."
            )
        return given
    tables = build_tables(
        {name: sentences(files) for name, files in splits.items()}, config, column
    )
    return TaggingTokenizer.of_words(tables) if given is None else TaggingTokenizer(given, tables)


def count_unseen_tags(
    files: Sequence[File], tables: LabelTables, config: PreprocessConfig
) -> dict[str, int]:
    """How many words have a tag that was not learned; refused unless they shall count as wrong."""
    known, count = set(tables.tags) | not_known(tables), 0
    instead = "" if config.tokenizer_from else ", or --vocabulary-from all"
    for path, found in files:
        for sentence in found:
            for tag, line in zip(sentence.tags, sentence.lines, strict=True):
                if tag in known:
                    continue
                count += 1
                if config.unseen_tags == "error":
                    raise_at_line(
                        path,
                        line,
                        f"a tag must come in the training part, but {tag!r} does not. Give "
                        f"--unseen-tags wrong to keep the word and count it as an error{instead}.",
                    )
    return {"unseen_tags": count}


def not_known(tables: LabelTables) -> set[str]:
    """What stands for a tag that is not known."""
    return {MISSING_TAG} if tables.column in COMPLETE else set()


def write_split(
    name: str, files: Sequence[File], tables: LabelTables, place: Mapping[str, int], folder: Path
) -> dict[str, Any]:
    """The columns of one split; each file is a document."""
    tag_ids = {tag: number for number, tag in enumerate(tables.tags)}
    tag_ids |= dict.fromkeys(not_known(tables), UNTAGGED)
    writers = {c: ColumnWriter(folder / f"{name}.{c}", d) for c, d in COLUMNS.items()}
    words = oov = ambiguous = 0
    several = {tables.words[place] for place in tables.ambiguous}
    for file in files:
        found = file.sentences
        flat = [word for sentence in found for word in sentence.words]
        first = np.arange(len(found)) == 0
        lengths = np.array([len(sentence.words) for sentence in found], np.int64)
        sources = np.array([len(sentence.source) for sentence in found], np.int64)
        tags = [tag_ids.get(tag, UNSEEN) for sentence in found for tag in sentence.tags]
        fields = [edge for sentence in found for field in sentence.tag_spans for edge in field]
        text = b"".join(sentence.source for sentence in found)
        writers["types"].add(np.array([place[w] for w in flat], np.int64), lengths, first)
        writers["tags"].add(np.array(tags, np.int64), lengths, first)
        writers["fields"].add(np.array(fields, np.int64), 2 * lengths, first)
        writers["source"].add(np.frombuffer(text, np.uint8), sources, first)
        words += len(flat)
        oov += sum(word not in tables.word_index for word in flat)
        ambiguous += sum(word in several for word in flat)
    parts = {c: {"dtype": COLUMNS[c], "parts": [w.finish()]} for c, w in writers.items()}
    counts = {"words": words, "oov": oov, "ambiguous": ambiguous}
    return {**counts, "files": [file.path.name for file in files], "columns": parts}


def write_vectors(config: PreprocessConfig, tokenizer: Tokenizer, folder: Path) -> str:
    """Write a row for each symbol if vectors are given; returns a summary."""
    if config.word_vectors is None:
        return ""
    symbols = tokenizer.vocabulary.symbols
    table, known = read_word_vectors(
        Path(config.word_vectors), symbols, limit=config.max_word_vectors
    )
    np.save(folder / VECTORS_FILE, table)
    return (
        f"{known:,} of {len(symbols):,} symbols have a word vector of width {table.shape[1]}; the "
        f"others start at random"
    )


def settings_of(config: PreprocessConfig, tokenizer: TaggingTokenizer) -> dict[str, Any]:
    return {
        "tokenizer": tokenizer.inner.kind,
        "reads": "words" if tokenizer.has_words else "pieces",
        "labels": tokenizer.tables.fingerprint[:16],
        **{name: getattr(config, name) for name in SETTINGS},
    }
