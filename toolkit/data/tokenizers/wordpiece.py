"""BERT's WordPiece tokenizer and the training of its vocabulary, with the package tokenizers."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.data.text_files import raise_at_line, read_text
from toolkit.data.tokenizers.token_offsets import TokenSpan, trim_span
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.training_text import split_long_words
from toolkit.data.tokenizers.vocabulary import WORD_REST, Vocabulary
from toolkit.data.tokenizers.word_cache import WordCache

if TYPE_CHECKING:
    import tokenizers

    HfTokenizer = tokenizers.Tokenizer
else:  # tokenizers is optional
    HfTokenizer = object

SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
MAX_WORD_CHARACTERS = 100  # longer words are unknown, as in BERT


def import_tokenizers() -> ModuleType:
    """The package tokenizers, imported when first needed."""
    try:
        return importlib.import_module("tokenizers")
    except ImportError as error:
        raise ToolkitError(
            "WordPiece requires the package tokenizers, which is not installed. "
            "Run pip install 'toolkit-seq[wordpiece]'."
        ) from error


class WordPieceTokenizer(Tokenizer):
    """The longest matching piece first, left to right in each word (Devlin et al. 2019, code).

    Text is cleaned and split at white space, at punctuation and around each Chinese character;
    lower-casing also drops accents. Special tokens spelled out in the text are ordinary text.
    """

    kind = "wordpiece"

    def __init__(self, vocabulary: Vocabulary, *, lowercase: bool) -> None:
        super().__init__(vocabulary, lowercase=lowercase)
        package = import_tokenizers()
        self._ids = {symbol: i for i, symbol in enumerate(vocabulary.symbols)}
        model = package.models.WordPiece(
            self._ids, unk_token=SPECIAL["unk"], max_input_chars_per_word=MAX_WORD_CHARACTERS
        )
        self._tokenizer = package.Tokenizer(model)
        self._tokenizer.normalizer = package.normalizers.BertNormalizer(lowercase=lowercase)
        self._tokenizer.pre_tokenizer = package.pre_tokenizers.BertPreTokenizer()
        self._decoder = package.decoders.WordPiece()
        self._words = WordCache(self._segment)

    @classmethod
    def from_file(cls, path: Path | str, *, lowercase: bool) -> WordPieceTokenizer:
        """BERT's vocab.txt: line i is piece i."""
        path = Path(path)
        line_of: dict[str, int] = {}
        lines = read_text(path).removesuffix("\n").split("\n")
        for number, symbol in enumerate((line.removesuffix("\r") for line in lines), 1):
            if not symbol.strip() or symbol in line_of:
                found = f"that of line {line_of[symbol]}" if symbol in line_of else "a blank line"
                raise_at_line(
                    path,
                    number,
                    f"expected a new piece, found {found}. Give the vocab.txt of a BERT model.",
                )
            line_of[symbol] = number
        missing = [name for name in SPECIAL.values() if name not in line_of]
        if missing:
            raise ToolkitError(
                f"{path} must list {', '.join(SPECIAL.values())}, but {', '.join(missing)} is "
                f"missing. Give the vocab.txt of a BERT model."
            )
        return cls.from_symbols(list(line_of), lowercase=lowercase)

    @classmethod
    def from_symbols(cls, symbols: Sequence[str], *, lowercase: bool) -> WordPieceTokenizer:
        """From pieces in order of their ids, with the special tokens under BERT's names."""
        roles = {role: symbols.index(name) for role, name in SPECIAL.items()}
        vocabulary = Vocabulary(symbols, mark=WORD_REST, **roles)
        return cls(vocabulary, lowercase=lowercase)

    @classmethod
    def _train(
        cls, lines: Sequence[str], *, vocabulary_size: int, lowercase: bool
    ) -> WordPieceTokenizer:
        symbols = train_word_pieces(
            [split_long_words(line) for line in lines],
            vocab_size=vocabulary_size,
            character_coverage=0.9995,
            lowercase=lowercase,
        )
        return cls.from_symbols(symbols, lowercase=lowercase)

    def encode_lines(self, lines: Sequence[str]) -> tuple[IntArray, IntArray]:
        return self._words.encode_lines(lines)

    def _locate(self, word: str) -> list[TokenSpan]:
        encoded = self._tokenizer.encode(word, add_special_tokens=False)
        spans = (trim_span(word, span) for span in encoded.offsets)
        return [(token, *span) for token, span in zip(encoded.ids, spans, strict=True)]

    def _encode_after_special(self, text: str, special: int) -> list[int]:
        """A letter right after a mask continues the word with ##."""
        if special != self.vocabulary.mask:
            return self.encode(text)
        return encode_word_rest(self._tokenizer, text, self.vocabulary.unk)

    def _segment(self, words: Sequence[str]) -> list[list[int]]:
        # one by one: encode_batch would start its own threads in every worker
        return [self._tokenizer.encode(word, add_special_tokens=False).ids for word in words]

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._decoder.decode([self.vocabulary.symbols[i] for i in ids]))

    @classmethod
    def _restore(
        cls, folder: Path, settings: JsonObject, symbols: Sequence[str]
    ) -> WordPieceTokenizer:
        vocabulary = Vocabulary(symbols, mark=WORD_REST, **settings["special"])
        return cls(vocabulary, lowercase=bool(settings["lowercase"]))


def encode_word_rest(tokenizer: HfTokenizer, text: str, unknown: int) -> list[int]:
    """Ids of text whose first word continues the word before it, with a WordPiece model.

    Only letters and digits continue a word, not punctuation, white space or a Chinese character.
    """
    encoding, normalizer = tokenizer.encode(text, add_special_tokens=False), tokenizer.normalizer
    start, end = encoding.word_to_chars(0) or (0, 0)
    word = normalizer.normalize_str(text[:end]) if normalizer else text[:end]
    if start or not word[:1].isalnum():
        return list(encoding.ids)
    others = (i for i, number in zip(encoding.ids, encoding.word_ids, strict=True) if number)
    return [*match_pieces(tokenizer, word, unknown), *others]


def match_pieces(tokenizer: HfTokenizer, word: str, unknown: int) -> list[int]:
    """The longest piece with ## first, left to right; `unknown` if none fits."""
    ids, start = list[int](), 0
    while start < len(word) <= MAX_WORD_CHARACTERS:
        for end in range(len(word), start, -1):
            number = tokenizer.token_to_id(WORD_REST + word[start:end])
            if number is not None:
                ids.append(number)
                break
        else:
            return [unknown]
        start = end
    return ids or [unknown]


def train_word_pieces(
    items: Sequence[str], *, vocab_size: int, character_coverage: float, lowercase: bool
) -> list[str]:
    """Special tokens, characters, then the most frequent pairs of pieces, merged again and again.

    Google never published BERT's own training; the package tokenizers uses byte-pair merges
    (Sennrich et al. 2016). It numbers characters in memory order; listing them by frequency first
    makes the vocabulary a function of the text.
    """
    package = import_tokenizers()
    normalizer = package.normalizers.BertNormalizer(lowercase=lowercase)
    letters = _alphabet(map(normalizer.normalize_str, items), character_coverage)
    fixed = [*SPECIAL.values(), *letters, *(WORD_REST + letter for letter in letters)]
    size = vocab_size + len(SPECIAL)
    if len(fixed) > size:
        raise ToolkitError(
            f"vocab_size must be at least twice the {len(letters)} characters of the text, but is "
            f"{vocab_size}. Raise it, or lower --character-coverage."
        )
    tokenizer = package.Tokenizer(package.models.WordPiece(unk_token=SPECIAL["unk"]))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = package.pre_tokenizers.BertPreTokenizer()
    trainer = package.trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=fixed, limit_alphabet=0, show_progress=False
    )
    tokenizer.train_from_iterator(items, trainer)
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def _alphabet(texts: Iterable[str], coverage: float) -> list[str]:
    """The most frequent characters that together cover this fraction of the text."""
    counts = Counter[str]()
    for text in texts:
        counts.update(text)
    known = [(count, letter) for letter, count in counts.items() if not letter.isspace()]
    letters, remaining = [], coverage * sum(count for count, _ in known)
    for count, letter in sorted(known, key=lambda entry: (-entry[0], entry[1])):
        if remaining <= 0:
            break
        letters.append(letter)
        remaining -= count
    return letters
