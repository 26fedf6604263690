"""Options of toolkit-preprocess: from raw text files to a data folder."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.sections import require

UNITS = ("lines", "paragraphs", "sentences")


@dataclass(frozen=True, kw_only=True)
class PreprocessConfig:
    trainpref: str = ""
    """Text to train on: files (plain, .gz or .xz) or folders of them, separated by commas.
    A folder stands for the .txt, .txt.gz and .txt.xz files in it. Each file is a document."""
    validpref: str = ""
    """Text to validate on, given like trainpref."""
    testpref: str = ""
    """Text to test on, given like trainpref."""
    destdir: str = "data-bin"
    """Folder to write; it must not exist yet or be empty, unless overwrite is given."""
    overwrite: bool = False
    """Replace a data folder that is already at destdir, once the new one is complete."""
    units: str = "lines"
    """What makes one item. lines: every line (one sentence a line, as Chang et al.), and a blank
    line ends a document. paragraphs: lines up to a blank line, joined. sentences: paragraphs cut
    behind . ! ? where a new sentence seems to begin; right for books and other running text."""
    valid_share: float = 0.0
    """Share of the training text to hold out as split valid, 0 to 1: every so many items, 16 in
    a row, chosen by their place alone."""
    test_share: float = 0.0
    """Share of the training text to hold out as split test."""
    vocab_size: int = 30000
    """Pieces of the SentencePiece model to train; the vocabulary has 4 special symbols more."""
    sentencepiece_model: str | None = None
    """SentencePiece model to use instead of training one."""
    sentencepiece_type: str = "unigram"
    """unigram or bpe, for a model trained here."""
    sentencepiece_megabytes: float = 20.0
    """Megabytes of training text that a SentencePiece model is trained on; of more text it sees
    lines spread evenly over all of it. 0 for no limit."""
    character_coverage: float = 0.9995
    """Share of the characters' occurrences that the pieces cover; 1.0 for small alphabets."""
    lowercase: bool = False
    """Lower the case and strip accents, as Chang et al. and ALBERT: NFKD, no combining marks."""
    split_digit_commas: bool = False
    """Cut the comma off pieces that end in a digit and a comma, as Chang et al. and ALBERT."""
    workers: int = 0
    """Processes that binarize in parallel; 0 for one on each core this process may use."""
    max_line_bytes: int = 500000
    """Longest line taken; a longer one is an error that names its file and line."""

    def __post_init__(self) -> None:
        require(
            bool(self.trainpref or self.validpref or self.testpref),
            "one of --trainpref, --validpref and --testpref must name text, but none does.",
        )
        require(
            self.units in UNITS, f"units must be one of {', '.join(UNITS)}, but is {self.units!r}."
        )
        for name in ("valid_share", "test_share"):
            value = getattr(self, name)
            require(0 <= value < 1, f"{name} must lie in 0 .. 1, 1 excluded, but is {value}.")
        require(
            self.valid_share + self.test_share < 1,
            f"valid_share and test_share must leave text to train on, but are "
            f"{self.valid_share} and {self.test_share}.",
        )
        for share, files in (("valid_share", "validpref"), ("test_share", "testpref")):
            require(
                not (getattr(self, share) and getattr(self, files)),
                f"{share} and {files} must not be given together. Give one of them.",
            )
        require(self.vocab_size > 3, f"vocab_size must be at least 4, but is {self.vocab_size}.")
        require(
            self.sentencepiece_type in ("unigram", "bpe"),
            f"sentencepiece_type must be unigram or bpe, but is {self.sentencepiece_type!r}.",
        )
        require(
            0.9 <= self.character_coverage <= 1,
            f"character_coverage must lie in 0.9 .. 1, but is {self.character_coverage}.",
        )
        require(
            self.sentencepiece_megabytes >= 0,
            f"sentencepiece_megabytes must not be negative, but is {self.sentencepiece_megabytes}.",
        )
        require(self.workers >= 0, f"workers must not be negative, but is {self.workers}.")
        require(
            self.max_line_bytes > 0,
            f"max_line_bytes must be at least 1, but is {self.max_line_bytes}.",
        )
