"""Learning WordPiece's vocabulary from text."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.text_files import read_text
from toolkit.data.tokenizers.token_offsets import TokenOffsets, TokenSpan, WordOffsets, trim_span
from toolkit.data.tokenizers.tokenizer import Ids, Tokenizer
from toolkit.data.tokenizers.vocabulary import WORD_REST, Vocabulary, starts_wordpiece_word
from toolkit.data.tokenizers.word_cache import WordCache

SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
MAX_WORD_CHARACTERS = 100  # characters; a longer one is unknown, as in BERT


def import_tokenizers() -> Any:
    """The package, imported when first needed."""
    try:
        return importlib.import_module("tokenizers")
    except ImportError as error:
        raise ToolkitError(
            "WordPiece must have the package tokenizers, but it is not installed. "
            "Run pip install 'toolkit-seq[wordpiece]'."
        ) from error


class WordPieceTokenizer(Tokenizer):
    """The longest piece that fits, from left to right in each word (Devlin et al. 2019, code).

    Text is cleaned and cut at white space, punctuation and around each Chinese character; lower
    case also drops accents. Special symbols spelled out in the text are ordinary text.
    """

    kind = "wordpiece"

    def __init__(self, vocabulary: Vocabulary, *, lowercase: bool) -> None:
        super().__init__(vocabulary, lowercase=lowercase)
        package = import_tokenizers()
        self._index = {symbol: i for i, symbol in enumerate(vocabulary.symbols)}
        model = package.models.WordPiece(
            self._index, unk_token=SPECIAL["unk"], max_input_chars_per_word=MAX_WORD_CHARACTERS
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
                fault = f"is that of line {line_of[symbol]}" if symbol in line_of else "is blank"
                raise ToolkitError(
                    f"{path}:{number} must be a piece of its own, but {fault}. Give the vocab.txt "
                    f"of a BERT model."
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
        """Of pieces in the order of their ids, the special ones under BERT's names."""
        roles = {role: symbols.index(name) for role, name in SPECIAL.items()}
        return cls(
            Vocabulary(symbols, is_word_start=starts_wordpiece_word, **roles), lowercase=lowercase
        )

    def encode_lines(self, lines: Sequence[str]) -> tuple[Ids, Ids]:
        return self._words.encode_lines(lines)

    def encode_with_offsets(self, lines: Sequence[str]) -> TokenOffsets:
        return self._located.encode_with_offsets(lines)

    @cached_property
    def _located(self) -> WordOffsets:
        return WordOffsets(self._locate)

    def _locate(self, word: str) -> list[TokenSpan]:
        found = self._tokenizer.encode(word, add_special_tokens=False)
        places = (trim_span(word, place) for place in found.offsets)
        return [(token, *place) for token, place in zip(found.ids, places, strict=True)]

    def encode_continuation(self, text: str) -> list[int]:
        """The first word as later pieces only; not where it begins with punctuation."""
        plain = self._tokenizer.normalizer.normalize_str(text)
        if not plain[:1].isalnum():
            return self.encode(text)
        (first, _), *others = self._tokenizer.pre_tokenizer.pre_tokenize_str(plain)
        return self._rest(first) + [i for word, _ in others for i in self.encode(word)]

    def _rest(self, letters: str) -> list[int]:
        ids, begin = [], 0
        while begin < len(letters):
            for end in range(len(letters), begin, -1):
                if (piece := WORD_REST + letters[begin:end]) in self._index:
                    break
            else:
                return [self.vocabulary.unk]
            ids.append(self._index[piece])
            begin = end
        return ids

    def _segment(self, words: Sequence[str]) -> list[list[int]]:
        # one by one: encode_batch would start threads of its own, in every worker
        return [self._tokenizer.encode(word, add_special_tokens=False).ids for word in words]

    def _join(self, ids: Sequence[int]) -> str:
        return str(self._decoder.decode([self.vocabulary.symbols[i] for i in ids]))

    @classmethod
    def _restore(
        cls, folder: Path, settings: Mapping[str, Any], symbols: Sequence[str]
    ) -> WordPieceTokenizer:
        vocabulary = Vocabulary(symbols, is_word_start=starts_wordpiece_word, **settings["special"])
        return cls(vocabulary, lowercase=bool(settings["lowercase"]))


def train_word_pieces(items: Sequence[str], config: PreprocessConfig) -> list[str]:
    """Special symbols, characters, then the most frequent pairs of pieces joined, again and again.

    This is how the package tokenizers learns (byte-pair merges, Sennrich et al. 2016): Google never
    published BERT's own way. It numbers characters as they happen to lie in memory; given in order
    of frequency beforehand, the same text has the same vocabulary.
    """
    package = import_tokenizers()
    normalizer = package.normalizers.BertNormalizer(lowercase=config.lowercase)
    letters = _alphabet([normalizer.normalize_str(item) for item in items], config)
    fixed = [*SPECIAL.values(), *letters, *(WORD_REST + letter for letter in letters)]
    size = config.vocab_size + len(SPECIAL)
    if len(fixed) > size:
        raise ToolkitError(
            f"vocab_size must be at least twice the {len(letters)} characters of the text, but is "
            f"{config.vocab_size}. Raise it, or lower --character-coverage."
        )
    tokenizer = package.Tokenizer(package.models.WordPiece(unk_token=SPECIAL["unk"]))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = package.pre_tokenizers.BertPreTokenizer()
    trainer = package.trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=fixed, limit_alphabet=0, show_progress=False
    )
    tokenizer.train_from_iterator(items, trainer)
    found = tokenizer.get_vocab()
    return sorted(found, key=found.__getitem__)


def _alphabet(texts: Sequence[str], config: PreprocessConfig) -> list[str]:
    """The most frequent characters, until they cover the share that is asked for."""
    counts = Counter[str]()
    for text in texts:
        counts.update(text)
    known = [(count, letter) for letter, count in counts.items() if not letter.isspace()]
    letters, wanted = [], config.character_coverage * sum(count for count, _ in known)
    for count, letter in sorted(known, key=lambda entry: (-entry[0], entry[1])):
        if wanted <= 0:
            break
        letters.append(letter)
        wanted -= count
    return letters
