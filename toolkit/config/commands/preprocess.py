"""Options of toolkit-preprocess: from raw text files to a data folder."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.commands.preprocess_formats import (
    PARALLEL,
    TAGGING_FORMATS,
    ClassificationOptions,
    ParallelOptions,
    TaggingOptions,
    check_options_match_format,
)
from toolkit.config.sections import check_choice, require

SEGMENTATIONS = ("lines", "paragraphs", "sentences")
TOKENIZER_KINDS = ("sentencepiece", "words", "wordpiece")
OVERLENGTH_POLICIES = ("error", "skip", "truncate", "split")
TOKENIZER_BY_OPTION = {  # option that brings a vocabulary: what it is a vocabulary of
    "sentencepiece_model": "sentencepiece",
    "srcdict": "words",
    "wordpiece_vocab": "wordpiece",
    "tokenizer_from": None,
}


@dataclass(frozen=True, kw_only=True)
class PreprocessConfig(ParallelOptions, ClassificationOptions, TaggingOptions):
    overwrite: bool = False
    """Replace a data folder that is already at destdir, once the new one is complete."""
    segment_by: str = "lines"
    """What makes one item. lines: every line (one sentence a line, as Chang et al.), and a blank
    line ends a document. paragraphs: lines up to a blank line, joined. sentences: paragraphs cut
    behind . ! ? where a new sentence seems to begin; right for books and other running text."""
    valid_fraction: float = 0.0
    """Share of the training text to hold out as split valid, 0 to 1: every so many items, 16 in
    a row, chosen by their place alone."""
    test_fraction: float = 0.0
    """Share of the training text to hold out as split test."""
    tokenizer: str | None = None
    """What the tokens are. sentencepiece: pieces of words, learned from the text. words: what white
    space separates. wordpiece: pieces as BERT cuts them. By default that of the given vocabulary,
    without one sentencepiece."""
    sentencepiece_model: str | None = None
    """SentencePiece model to use instead of training one."""
    srcdict: str | None = None
    """Dictionary of words to use: fairseq's dict.txt, a line `symbol count` for each."""
    wordpiece_vocab: str | None = None
    """WordPiece vocabulary to use: BERT's vocab.txt, a line for each piece."""
    tokenizer_from: str | None = None
    """Data folder or checkpoint whose tokenizer and vocabulary to use, with its lower-casing; a
    save folder means its best one."""
    vocab_size: int = 30000
    """Most pieces or words to learn from the text; special symbols (4 with sentencepiece, 2 in
    tagged text, 5 otherwise) come on top."""
    min_count: int = 1
    """Words that come less often in the text are left out of a vocabulary of words."""
    sentencepiece_type: str = "unigram"
    """unigram or bpe, for a SentencePiece model trained here."""
    sentencepiece_megabytes: float = 20.0
    """Megabytes of training text that pieces are learned from, also those of wordpiece; of more
    text, lines spread evenly over all of it. 0 for no limit. Words are counted in all of it."""
    character_coverage: float = 0.9995
    """Share of the characters' occurrences that the pieces cover; 1.0 for small alphabets."""
    lowercase: bool = False
    """Lower the case and strip accents, as Chang et al. and ALBERT: NFKD, no combining marks. With
    wordpiece as BERT's uncased models, which keep compatibility characters."""
    split_digit_commas: bool = False
    """Cut the comma off pieces that end in a digit and a comma, as Chang et al. and ALBERT."""
    max_item_tokens: int = 0
    """Most tokens of one item, special symbols not counted, or most words of a tagged sentence; 0
    for no limit."""
    overlength: str = "error"
    """What becomes of an item with more, or a pair of which one has. error: the run ends and names
    its line. skip: it is left out. truncate: its tail is. split: it becomes several items, cut
    before a word where it can be; not a pair. Each split's table and meta.json say how many and how
    many tokens."""
    workers: int = 0
    """Processes that binarize in parallel; 0 for one on each core this process may use."""
    json: str | None = None
    """File to write counts and speed to as JSON lines; - for standard output, on which nothing else
    is then written."""
    max_line_bytes: int = 500000
    """Longest line taken; a longer one is an error that names its file and line."""

    def __post_init__(self) -> None:
        require(
            bool(self.trainpref or self.validpref or self.testpref),
            "one of --trainpref, --validpref and --testpref must name text, but none does.",
        )
        check_choice("segment_by", self.segment_by, SEGMENTATIONS)
        for name in ("trainpref", "validpref", "testpref"):
            value = getattr(self, name)
            require(
                not value or any(value.split(",")),
                f"{name} must name text between its commas, but is {value!r}. Name files, or "
                "leave it out.",
            )
        for name in ("valid_fraction", "test_fraction"):
            value = getattr(self, name)
            require(0 <= value < 1, f"{name} must lie in 0 .. 1, 1 excluded, but is {value}.")
        require(
            self.valid_fraction + self.test_fraction < 1,
            f"valid_fraction and test_fraction must leave text to train on, but are "
            f"{self.valid_fraction} and {self.test_fraction}.",
        )
        for share, files in (("valid_fraction", "validpref"), ("test_fraction", "testpref")):
            require(
                not (getattr(self, share) and getattr(self, files)),
                f"{share} and {files} must not be given together. Give one of them.",
            )
        require(self.vocab_size > 3, f"vocab_size must be at least 4, but is {self.vocab_size}.")
        require(self.min_count > 0, f"min_count must be at least 1, but is {self.min_count}.")
        self.check_parallel()
        self.check_tagging()
        self.check_classification()
        check_options_match_format(self)
        self._check_tokenizer()
        self._check_limits()
        check_choice("sentencepiece_type", self.sentencepiece_type, ("unigram", "bpe"))
        require(
            0.9 <= self.character_coverage <= 1,
            f"character_coverage must lie in 0.9 .. 1, but is {self.character_coverage}.",
        )
        require(
            self.sentencepiece_megabytes >= 0,
            f"sentencepiece_megabytes must not be negative, but is {self.sentencepiece_megabytes}.",
        )

    @property
    def vocabulary_option(self) -> str | None:
        """The option that brings a vocabulary."""
        return next((name for name in TOKENIZER_BY_OPTION if getattr(self, name) is not None), None)

    @property
    def tokenizer_kind(self) -> str:
        """The tokenizer: as asked, or that of the given vocabulary."""
        of_given = TOKENIZER_BY_OPTION[self.vocabulary_option] if self.vocabulary_option else None
        return self.tokenizer or of_given or TOKENIZER_KINDS[0]

    def _check_tokenizer(self) -> None:
        given = [name for name in TOKENIZER_BY_OPTION if getattr(self, name) is not None]
        self.check_target(self.tokenizer_kind)
        require(
            len(given) < 2,
            f"a vocabulary must be given once, but is by {' and '.join(given)}. Leave one of them "
            f"out.",
        )
        check_choice("tokenizer", self.tokenizer_kind, TOKENIZER_KINDS)
        for name in given:
            require(
                self.tokenizer in (None, TOKENIZER_BY_OPTION[name]),
                f"tokenizer must be what {name} is of, but is {self.tokenizer}. Leave it out.",
            )
        require(
            not (self.tokenizer_from and (self.lowercase or self.split_digit_commas)),
            "lowercase and split_digit_commas must be those of tokenizer_from, but are given "
            "beside "
            "it. Leave them out.",
        )
        require(
            self.tokenizer_kind == "sentencepiece" or not self.split_digit_commas,
            "split_digit_commas must come with sentencepiece, but the tokenizer is "
            f"{self.tokenizer_kind}. "
            f"Leave it out.",
        )
        require(
            bool(given) or not self.lowercase or self.format not in TAGGING_FORMATS,
            f"lowercase must come with pieces for tagged text, but words of {self.format} are read "
            f"as they are written. Give --sentencepiece-model or --wordpiece-vocab, or leave it "
            f"out.",
        )
        one_learned = (
            self.format == PARALLEL and not self.joined_dictionary and self.tgtdict is None
        )
        counted = not given or (given == ["srcdict"] and one_learned)
        require(
            self.min_count == 1
            or (counted and (self.tokenizer_kind == "words" or self.format in TAGGING_FORMATS)),
            "min_count must come with a dictionary of words to be counted, but there is none. "
            "Give --tokenizer words.",
        )

    def _check_limits(self) -> None:
        require(self.workers >= 0, f"workers must not be negative, but is {self.workers}.")
        require(
            self.max_line_bytes > 0,
            f"max_line_bytes must be at least 1, but is {self.max_line_bytes}.",
        )
        require(
            self.max_item_tokens >= 0,
            f"max_item_tokens must not be negative, but is {self.max_item_tokens}.",
        )
        check_choice("overlength", self.overlength, OVERLENGTH_POLICIES)
        require(
            self.overlength != "split" or self.format != PARALLEL,
            "overlength must be error, skip or truncate for parallel text, but is split. The other "
            "language's sentence could not be cut at the same place.",
        )
        require(
            self.overlength == "error" or self.max_item_tokens > 0,
            f"overlength {self.overlength} must come with a limit, but there is none. Give "
            f"--max-item-tokens.",
        )
