"""Text with a tag for each word: words, tags, and the text they were read from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from toolkit.common.arrays import AnyArray, IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.common.registry import register_format
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.formats.format import Block, Format, Job, SplitReport, count_column
from toolkit.data.formats.tagging.split import COLUMNS, KIND, TYPES_FILE, UNKNOWN_TAG, UNSEEN_TAG
from toolkit.data.formats.tagging.tokenizer import (
    ANY_COLUMN,
    ConllColumnsConfig,
    ConlluConfig,
    LabelTables,
    TaggingFormatConfig,
    TaggingTokenizer,
    build_tables,
    join_sentences,
    read_word_vectors,
)
from toolkit.data.formats.tagging.treebanks import (
    ConlluOptions,
    TaggedFile,
    TaggedSentence,
    read_conll_columns,
    read_conllu,
    read_penn_treebank,
)
from toolkit.data.preprocessing.choose_tokenizer import (
    choose_tokenizer_for_texts,
    load_given_tokenizer,
)
from toolkit.data.preprocessing.workers import WorkerPool
from toolkit.data.storage.column_files import ColumnType
from toolkit.data.storage.data_folder import VECTORS_FILE
from toolkit.data.tokenizers.tokenizer import unwrap_tokenizer
from toolkit.data.tokenizers.vocabulary import write_symbols


class TaggingFormat(Format[list[TaggedFile], TaggingTokenizer]):
    """Base class of tagged text; a subclass defines `read_file`."""

    kind, unit, recursive = KIND, "words", True
    options: TaggingFormatConfig
    tag = "upos"
    empty_nodes = False

    def read_file(self, path: Path, *, untagged: bool) -> Iterator[TaggedSentence]:
        """The sentences of a file; with `untagged`, words may lack their tag."""
        raise NotImplementedError

    def check(self) -> None:
        self.tag_column = self.name
        """The kind of tags, so that label tables of another kind are rejected."""
        c = self.config
        if c.srcdict or (c.lowercase and not (c.vocabulary_option or self.trains_pieces)):
            raise ToolkitError(
                "--srcdict and --lowercase cannot be combined with tagged text whose tokens are "
                "words: they are read as they are. Choose --tokenizer sentencepiece or wordpiece, "
                "or a tokenizer with --sentencepiece-model, --wordpiece-vocab or --tokenizer-from."
            )

    @property
    def trains_pieces(self) -> bool:
        """Whether subwords are learned; the default is words."""
        return self.config.tokenizer not in (None, "words")

    def read_split(self, split: str, files: Sequence[Path]) -> list[TaggedFile]:
        untagged = split != "train" and self.options.unseen_tags == "wrong"
        content = [(path, list(self.read_file(path, untagged=untagged))) for path in files]
        limit = self.options.max_item_tokens
        for path, sentences in content:
            if not sentences:
                raise ToolkitError(f"{path}:1: the file holds no sentence. Give another file.")
            if all(it.words == [str(n) for n in range(1, 1 + len(it.words))] for it in sentences):
                self.remarks.append(
                    f"warning: all words of {path} are numbers that count up. The words of a file "
                    f"of columns may be in --word-column 2"
                )
            for sentence in sentences:
                if 0 < limit < len(sentence.words):
                    raise ToolkitError(
                        f"{path}:{sentence.lines[0]}: a sentence must have at most {limit} words, "
                        f"but has {len(sentence.words)}. Raise --max-item-tokens; models read "
                        f"longer sentences in chunks."
                    )
        return content

    def choose_tokenizer(
        self, splits: Mapping[str, list[TaggedFile]], folder: Path, pool: WorkerPool
    ) -> TaggingTokenizer:
        """The words of the text, or a given tokenizer; label tables are learned unless given."""
        given = load_given_tokenizer(self.config)
        if isinstance(given, TaggingTokenizer):
            if given.tables.column not in (self.tag_column, ANY_COLUMN):
                raise ToolkitError(
                    f"--tokenizer-from {self.config.tokenizer_from} has tags of "
                    f"{given.tables.column}, but the text has {self.tag_column}. Choose another "
                    f"--tag or --format."
                )
            tokenizer = given
        else:
            limits = self.config  # --vocab-size is the number of subwords, if they are learned
            if self.trains_pieces:
                limits = replace(limits, vocab_size=PreprocessConfig.vocab_size)
            tables = build_tables(splits, self.options, limits, self.tag_column)
            if given is None and self.trains_pieces:
                texts = (" ".join(it.words) for it in join_sentences(splits["train"]))
                given = choose_tokenizer_for_texts(self.config, texts, folder, pool)
            words = TaggingTokenizer.of_words(tables)
            tokenizer = TaggingTokenizer(unwrap_tokenizer(given), tables) if given else words
        if self.options.unseen_tags == "error":
            self.check_tags(splits, tokenizer.tables)
        return tokenizer

    def check_tags(self, splits: Mapping[str, list[TaggedFile]], tables: LabelTables) -> None:
        """Raise at the first tag that is not in the label tables."""
        known = {*tables.tags, *tables.unknown_tags}
        alternative = "" if self.config.tokenizer_from else ", or --vocabulary-from all"
        for path, sentences in (file for files in splits.values() for file in files):
            for sentence in sentences:
                for tag, line in zip(sentence.tags, sentence.lines, strict=True):
                    if tag not in known:
                        raise ToolkitError(
                            f"{path}:{line}: tag {tag!r} does not occur in the training data. Give "
                            f"--unseen-tags wrong to keep the word and count it as an "
                            f"error{alternative}."
                        )

    def write_files(
        self, splits: Mapping[str, list[TaggedFile]], job: Job[TaggingTokenizer]
    ) -> Sequence[str]:
        """The distinct words of all splits, and the vectors of the vocabulary."""
        sentences = join_sentences(file for files in splits.values() for file in files)
        types = list(dict.fromkeys(word for sentence in sentences for word in sentence.words))
        (job.folder / TYPES_FILE).write_bytes(write_symbols(types).encode())
        self.type_ids = {word: number for number, word in enumerate(types)}
        if self.options.word_vectors is None:
            return [TYPES_FILE]
        path, symbols = Path(self.options.word_vectors), job.tokenizer.vocabulary.symbols
        table, found = read_word_vectors(path, symbols, limit=self.options.max_word_vectors)
        np.save(job.folder / VECTORS_FILE, table)
        self.remarks.append(
            f"{found:,} of {len(symbols):,} symbols have a word vector of width {table.shape[1]}; "
            f"the others start at random"
        )
        return [TYPES_FILE, VECTORS_FILE]

    def columns(self, split: str, tokenizer: TaggingTokenizer) -> Mapping[str, ColumnType]:
        return COLUMNS

    def encode(
        self, split: str, content: list[TaggedFile], job: Job[TaggingTokenizer]
    ) -> Iterator[Block]:
        """Each file is a document."""
        tables = job.tokenizer.tables
        tag_ids = {tag: number for number, tag in enumerate(tables.tags)}
        tag_ids |= dict.fromkeys(tables.unknown_tags, UNKNOWN_TAG)
        ambiguous = {tables.words[index] for index in tables.ambiguous}
        for _, sentences in content:
            words = [word for sentence in sentences for word in sentence.words]
            tags = [tag_ids.get(tag, UNSEEN_TAG) for s in sentences for tag in s.tags]
            spans = [edge for s in sentences for span in s.tag_spans for edge in span]
            source = b"".join(sentence.source for sentence in sentences)
            lengths = np.array([len(sentence.words) for sentence in sentences], np.int64)
            sizes = np.array([len(sentence.source) for sentence in sentences], np.int64)
            columns: dict[str, tuple[AnyArray, IntArray]] = {
                "types": (np.array([self.type_ids[w] for w in words], np.int64), lengths),
                "tags": (np.array(tags, np.int64), lengths),
                "fields": (np.array(spans, np.int64), 2 * lengths),
                "source": (np.frombuffer(source, np.uint8), sizes),
            }
            counts = {
                "words": len(words),
                "oov": sum(word not in tables.word_index for word in words),
                "ambiguous": sum(word in ambiguous for word in words),
                "unseen_tags": tags.count(UNSEEN_TAG),
            }
            yield Block(columns, np.arange(len(sentences)) == 0, counts)

    def split_metadata(self, content: list[TaggedFile]) -> JsonObject:
        return {"files": [path.name for path, _ in content]}

    def settings(self, tokenizer: TaggingTokenizer) -> JsonObject:
        return {
            "tokenizer": tokenizer.inner.kind,
            "reads": "words" if tokenizer.has_words else "pieces",
            "labels": tokenizer.tables.fingerprint[:16],
            "format": self.name,
            "tag": self.tag,
            "empty_nodes": self.empty_nodes,
            "vocabulary_from": self.options.vocabulary_from,
            "type_fraction": self.options.type_fraction,
            "min_count": self.config.min_count,
        }

    def describe(self, tokenizer: TaggingTokenizer) -> tuple[str, JsonObject]:
        tables = tokenizer.tables
        pieces = "" if tokenizer.has_words else f", {len(tokenizer.vocabulary):,} pieces"
        words, tags, characters = map(len, (tables.words, tables.tags, tables.characters))
        title = f"{words:,} known words{pieces}, {tags} tags, {characters:,} characters"
        return title, {"known_words": words, "tags": tags}

    def report_split(
        self, split: str, content: list[TaggedFile] | None, entry: JsonObject
    ) -> SplitReport:
        sentences, words = count_column(entry["columns"]["types"])["items"], entry["words"]
        record = {"files": len(entry["files"]), "sentences": sentences}
        record |= {name: entry[name] for name in ("words", "oov", "ambiguous", "unseen_tags")}
        row = {
            "files": record["files"],
            "sentences": sentences,
            "words": words,
            "out of vocabulary": f"{record['oov'] / words:.2%}",
            "ambiguous": f"{record['ambiguous'] / words:.2%}",
            "unseen tags": record["unseen_tags"],
        }
        return SplitReport(record, row, words)


@register_format("conllu", ConlluConfig())
class ConlluFormat(TaggingFormat):
    """CoNLL-U, as in Universal Dependencies."""

    suffixes = (".conllu",)
    options: ConlluConfig

    def check(self) -> None:
        super().check()
        self.tag, self.empty_nodes = self.options.tag, self.options.empty_nodes
        self.tag_column = self.tag

    def read_file(self, path: Path, *, untagged: bool) -> Iterator[TaggedSentence]:
        return read_conllu(path, ConlluOptions(self.tag, self.empty_nodes, untagged))


@register_format("ptb", TaggingFormatConfig())
class PennTreebankFormat(TaggingFormat):
    """Penn Treebank: bracketed .mrg files. Every word has a tag."""

    suffixes = (".mrg",)

    def read_file(self, path: Path, *, untagged: bool) -> Iterator[TaggedSentence]:
        return read_penn_treebank(path)


@register_format("columns", ConllColumnsConfig())
class ConllColumnsFormat(TaggingFormat):
    """A word and its tag per line, a blank line after each sentence."""

    suffixes = (".txt", ".tsv", ".tagged")
    options: ConllColumnsConfig

    def check(self) -> None:
        super().check()
        words, tags = self.options.word_column, self.options.tag_column
        self.columns_read = {"word_column": words, "tag_column": tags}
        if words == tags:
            raise ToolkitError(
                f"--word-column and --tag-column must differ, but both are {tags}. Give "
                f"--tag-column."
            )

    def read_file(self, path: Path, *, untagged: bool) -> Iterator[TaggedSentence]:
        return read_conll_columns(path, **self.columns_read, untagged=untagged)

    def settings(self, tokenizer: TaggingTokenizer) -> JsonObject:
        return {**super().settings(tokenizer), **self.columns_read}
