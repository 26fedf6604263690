"""Options of toolkit-preprocess that every format has; the others belong to the format."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import FORMATS
from toolkit.config.command import Command
from toolkit.config.declared import (
    ADVANCED,
    MULTI_WORD,
    AtLeast,
    AtMost,
    NonNegativeFloat,
    Options,
    PositiveInt,
    Processes,
    to_flag,
)
from toolkit.config.sections import ComponentConfig

TokenizerKind = Literal["sentencepiece", "words", "wordpiece", "bpe", "characters", "bytes"]
TOKENIZER_BY_OPTION: dict[
    str, TokenizerKind | None
] = {  # option that brings a vocabulary -> the kind of tokenizer it belongs to
    "sentencepiece_model": "sentencepiece",
    "srcdict": "words",
    "wordpiece_vocab": "wordpiece",
    "tokenizer_from": None,
}


@dataclass(frozen=True, kw_only=True)
class PreprocessConfig(Options, titles={"trainpref": "input and output", "tokenizer": "tokenizer"}):
    """Options of toolkit-preprocess for every format."""

    trainpref: str = field(default="", metadata=MULTI_WORD)
    """Training data: files (plain, .gz, .xz or .zst) or folders of them, separated by commas or
    spaces. A folder stands for the files of the format in it. Each file is a document."""
    validpref: str = field(default="", metadata=MULTI_WORD)
    """Validation data, in the same form as --trainpref."""
    testpref: str = field(default="", metadata=MULTI_WORD)
    """Test data, in the same form as --trainpref."""
    destdir: str = "data-bin"
    """Folder to write. Unless --overwrite is given, it must be empty or not exist."""
    overwrite: bool = False
    """Replace the data folder at destdir once the new one is complete."""
    workers: Processes = 0
    """Number of worker processes; 0 for one per available core."""
    max_line_bytes: PositiveInt = field(default=500000, metadata=ADVANCED)
    """Maximum length of a line in bytes; a longer one is an error that names its file and line."""
    json: str | None = None
    """File for counts and speed as JSON lines; - for standard output, which then holds nothing
    else."""
    tokenizer: TokenizerKind | None = None
    """Kind of tokenizer. sentencepiece: subwords, trained on the text. words: split at white space.
    wordpiece: BERT's subwords. bpe: GPT-2's byte-level subwords. characters, bytes: single ones.
    Default: that of the given vocabulary, else sentencepiece."""
    vocab_size: Annotated[int, AtLeast(4)] = 30000
    """Maximum number of subwords, words or characters to learn from the text, not counting special
    tokens (4 with sentencepiece, 2 in tagged text, 5 otherwise)."""
    sentencepiece_model: str | None = None
    """SentencePiece model to use instead of training one."""
    srcdict: str | None = None
    """Vocabulary of words to use: fairseq's dict.txt, with a line `symbol count` for each word."""
    wordpiece_vocab: str | None = None
    """WordPiece vocabulary to use: BERT's vocab.txt."""
    tokenizer_from: str | None = None
    """Data folder or checkpoint whose tokenizer to use, including its lowercasing. A save folder
    stands for its best checkpoint. Or a tokenizer.json, or a folder that Transformers saved."""
    lowercase: bool = False
    """Lowercase and strip accents, as Chang et al. and ALBERT do: NFKD without combining marks; for
    wordpiece as BERT's uncased models do; not with --tokenizer-from."""
    min_count: PositiveInt = 1
    """Minimum number of occurrences of a word in the training text; only for word vocabularies."""
    sentencepiece_type: Literal["unigram", "bpe"] = "unigram"
    """Algorithm of a SentencePiece model trained here: unigram, or byte-pair encoding (bpe)."""
    sentencepiece_megabytes: NonNegativeFloat = field(default=20.0, metadata=ADVANCED)
    """Megabytes of training text to train SentencePiece or WordPiece on, spread evenly over all of
    it; 0 for all. Words, characters and byte pairs are counted in the whole text."""
    character_coverage: Annotated[float, AtLeast(0.9), AtMost(1)] = field(
        default=0.9995, metadata=ADVANCED
    )
    """Fraction of the text's characters that SentencePiece covers; 1.0 for small alphabets."""
    split_digit_commas: bool = field(default=False, metadata=ADVANCED)
    """Split the comma off SentencePiece's subwords that end in a digit and a comma, as Chang et al.
    and ALBERT do."""
    format: ComponentConfig
    """What the files hold: a registered data format and its options."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.inputs:
            raise ToolkitError("no input: give --trainpref, --validpref or --testpref.")
        for split, names in self.inputs.items():
            if "-" in names.split(","):
                raise ToolkitError(
                    f"{split}pref must name files, which are read twice, but - is standard input. "
                    f"Write it to a file first."
                )
            if not any(names.split(",")):
                raise ToolkitError(
                    f"{split}pref must name files between its commas, but is {names!r}."
                )
        given = [name for name in TOKENIZER_BY_OPTION if getattr(self, name) is not None]
        kinds = {TOKENIZER_BY_OPTION[name] for name in given} - {self.tokenizer}
        if len(given) > 1 or (self.tokenizer and kinds):
            others = [f"--tokenizer {self.tokenizer}"] * bool(self.tokenizer)
            raise ToolkitError(
                f"{' and '.join([*others, *map(to_flag, given)])} cannot be combined: each names "
                f"a tokenizer."
            )

    @property
    def inputs(self) -> dict[str, str]:
        """Split -> the files that its option names, separated by commas; only splits with any."""
        splits = {"train": self.trainpref, "valid": self.validpref, "test": self.testpref}
        return {split: names for split, names in splits.items() if names}

    @property
    def vocabulary_option(self) -> str | None:
        """The option that brings a vocabulary."""
        return next((it for it in TOKENIZER_BY_OPTION if getattr(self, it) is not None), None)

    @property
    def tokenizer_kind(self) -> TokenizerKind:
        """The kind that is asked for, or that of the given vocabulary."""
        given = self.vocabulary_option
        of_given = TOKENIZER_BY_OPTION[given] if given else None
        return self.tokenizer or of_given or "sentencepiece"


PREPROCESS = Command(
    name="toolkit-preprocess",
    summary="Turn text files into a data folder: train a tokenizer on them or use a given one, and "
    "write the tokens of each split as memory-mapped columns with checksums.",
    example="toolkit-preprocess --trainpref a.txt,b.txt.gz --validpref held-out.txt "
    "--destdir data --vocab-size 8000",
    config=PreprocessConfig,
    act="toolkit.data.preprocess:preprocess",
    common=(
        *("trainpref", "validpref", "testpref", "destdir", "vocab_size"),
        *("format.text_field", "format.segment_by", "format.valid_fraction", "workers"),
    ),
    components={"format": FORMATS},
    defaults={"format": "text"},
    implied={"format.source_lang": "parallel", "format.target_lang": "parallel"},
)
