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
from toolkit.data.formats.tagging.conllu import ABSENT
from toolkit.data.formats.tagging.files import files_of, read_file
from toolkit.data.formats.tagging.label_tables import COMPLETE, Tables, learn
from toolkit.data.formats.tagging.sentence import Sentence, refuse, refuse_without_words
from toolkit.data.formats.tagging.tokenizer import TaggedCodec
from toolkit.data.preprocessing.choose_tokenizer import given_codec
from toolkit.data.preprocessing.output_folder import destination, written_to
from toolkit.data.storage.column_writer import ColumnWriter
from toolkit.data.storage.meta import META_FILE, meta_of, write_meta
from toolkit.data.storage.word_vectors import VECTORS_FILE, read_vectors
from toolkit.data.tokenizers.tokenizer import Codec
from toolkit.data.tokenizers.vocabulary import write_symbols
from toolkit.reporting.json_output import Output

KIND, TYPES_FILE = "tagged", "types.txt"
COLUMNS = {"types": "<i4", "tags": "<u2", "fields": "<i4", "source": "<u1"}
UNSEEN = 65535  # in place of a tag that training does not have
UNTAGGED = 65534  # in place of one that is not known
SETTINGS = ("format", "tag", "empty_nodes", "vocabulary_from", "type_share", "min_count")


class File(NamedTuple):
    path: Path
    sentences: list[Sentence]


def preprocess_tagged(config: PreprocessConfig) -> None:
    """Read every split, learn or take the tables, write the columns, and meta.json last."""
    begun = time.perf_counter()
    with (
        Output(config.json) as output,
        destination(Path(config.destdir), overwrite=config.overwrite) as folder,
    ):
        splits = {name: read_split(name, config) for name in ("train", "valid", "test")}
        splits = {name: files for name, files in splits.items() if files}
        codec = codec_for(config, splits)
        unseen = {name: unseen_in(files, codec.tables, config) for name, files in splits.items()}
        types = Counter(w for files in splits.values() for s in sentences(files) for w in s.words)
        with written_to(config.destdir):
            codec.save(folder)
            text = write_symbols(list(types))
            (folder / TYPES_FILE).write_text(text, encoding="utf-8", newline="\n")
            found = write_vectors(config, codec, folder)
            place = {word: number for number, word in enumerate(types)}
            written = {
                name: {**write_split(name, files, codec.tables, place, folder), **unseen[name]}
                for name, files in splits.items()
            }
            meta = meta_of(
                folder,
                codec,
                kind=KIND,
                settings=settings_of(config, codec),
                splits=written,
                more_files=[TYPES_FILE, VECTORS_FILE] if found else [TYPES_FILE],
            )
            write_meta(folder / META_FILE, meta)
        seconds = time.perf_counter() - begun
        report.summary(config.destdir, codec, meta, found, seconds, output)


def read_split(name: str, config: PreprocessConfig) -> list[File]:
    files, untagged = [], name != "train" and config.unseen_tags == "wrong"
    for path in files_of(name, config):
        found = list(read_file(path, config, untagged=untagged))
        refuse_without_words(path, found)
        refuse_long(path, found, config.max_item_tokens)
        files.append(File(path, found))
    return files


def sentences(files: Sequence[File]) -> list[Sentence]:
    return [sentence for file in files for sentence in file.sentences]


def refuse_long(path: Path, found: Sequence[Sentence], most: int) -> None:
    for sentence in found:
        if most and len(sentence.words) > most:
            refuse(
                path,
                sentence.lines[0],
                f"a sentence must have at most {most} words, but has {len(sentence.words)}. Raise "
                f"--max-item-tokens; models read longer sentences in chunks.",
            )


def codec_for(config: PreprocessConfig, splits: Mapping[str, Sequence[File]]) -> TaggedCodec:
    """Words of the text itself, or pieces that an option names; tables given with them or learnt.

    Tables learnt on other tags would mean other labels.
    """
    given = given_codec(config)
    column = config.tag if config.format == "conllu" else config.format
    if isinstance(given, TaggedCodec):
        if given.tables.column != column:
            raise ToolkitError(
                f"codec_from must be of the same tags, but {config.codec_from} is of "
                f"{given.tables.column} and the text of {column}. Choose another --tag or --format."
            )
        if config.vocabulary_from != "train" or config.type_share != 1:
            raise ToolkitError(
                "vocabulary_from and type_share must be those of codec_from, but are given beside "
                "it. Leave them out."
            )
        return given
    tables = learn({name: sentences(files) for name, files in splits.items()}, config, column)
    return TaggedCodec.of_words(tables) if given is None else TaggedCodec(given, tables)


def unseen_in(files: Sequence[File], tables: Tables, config: PreprocessConfig) -> dict[str, int]:
    """How many words have a tag that was not learnt; refused unless they shall count as wrong."""
    known, count = set(tables.tags) | not_known(tables), 0
    instead = "" if config.codec_from else ", or --vocabulary-from all"
    for path, found in files:
        for sentence in found:
            for tag, line in zip(sentence.tags, sentence.lines, strict=True):
                if tag in known:
                    continue
                count += 1
                if config.unseen_tags == "error":
                    refuse(
                        path,
                        line,
                        f"a tag must come in the training part, but {tag!r} does not. Give "
                        f"--unseen-tags wrong to keep the word and count it as an error{instead}.",
                    )
    return {"unseen_tags": count}


def not_known(tables: Tables) -> set[str]:
    """What stands for a tag that is not known."""
    return {ABSENT} if tables.column in COMPLETE else set()


def write_split(
    name: str, files: Sequence[File], tables: Tables, place: Mapping[str, int], folder: Path
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
        fields = [edge for sentence in found for field in sentence.fields for edge in field]
        text = b"".join(sentence.source for sentence in found)
        writers["types"].add(np.array([place[w] for w in flat], np.int64), lengths, first)
        writers["tags"].add(np.array(tags, np.int64), lengths, first)
        writers["fields"].add(np.array(fields, np.int64), 2 * lengths, first)
        writers["source"].add(np.frombuffer(text, np.uint8), sources, first)
        words += len(flat)
        oov += sum(word not in tables.index for word in flat)
        ambiguous += sum(word in several for word in flat)
    parts = {c: {"dtype": COLUMNS[c], "parts": [w.finish()]} for c, w in writers.items()}
    counts = {"words": words, "oov": oov, "ambiguous": ambiguous}
    return {**counts, "files": [file.path.name for file in files], "columns": parts}


def write_vectors(config: PreprocessConfig, codec: Codec, folder: Path) -> str:
    """A row for each symbol, where vectors are given; what was found, in words."""
    if config.word_vectors is None:
        return ""
    vectors = read_vectors(Path(config.word_vectors), config.word_vectors_first)
    symbols = codec.vocabulary.symbols
    table, known = vectors.of(symbols)
    np.save(folder / VECTORS_FILE, table)
    return (
        f"{known:,} of {len(symbols):,} symbols have one of the {len(vectors.table):,} vectors, "
        f"{table.shape[1]} wide; the others begin at random"
    )


def settings_of(config: PreprocessConfig, codec: TaggedCodec) -> dict[str, Any]:
    return {
        "tokenizer": codec.inner.kind,
        "reads": "words" if codec.has_words else "pieces",
        "labels": codec.tables.fingerprint[:16],
        **{name: getattr(config, name) for name in SETTINGS},
    }
