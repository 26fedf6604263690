"""Text to ids and back: what a data folder and a checkpoint carry along to read new text."""

from __future__ import annotations

import gc
import json
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate, chain, groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sentencepiece

from toolkit.common.errors import ToolkitError
from toolkit.data.normalise import lower_without_accents
from toolkit.data.vocabulary import (
    ROLES,
    WORD_START,
    Vocabulary,
    append_special,
    read_symbols,
    write_symbols,
)

MODEL_FILE, CODEC_FILE, SYMBOLS_FILE = "sentencepiece.model", "codec.json", "dict.txt"
FILES = (SYMBOLS_FILE, CODEC_FILE, MODEL_FILE)
OPTIONS = ("lowercase", "split_digit_commas")
CACHED_WORDS = 1 << 20

Ids = npt.NDArray[np.int64]


@contextmanager
def _no_collection() -> Iterator[None]:
    """Many small lists that are all alive make the cyclic collector search them in vain."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Rows(dict[str, int]):
    """Words numbered as they first appear; one look-up a word, whether known or new."""

    def __init__(self) -> None:
        self._new: list[str] = []

    def __missing__(self, word: str) -> int:
        self._new.append(word)
        return self.setdefault(word, len(self))

    def take_new(self) -> list[str]:
        """The words that appeared since the last call, in the order of their numbers."""
        new, self._new = self._new, []
        return new


class Codec:
    """SentencePiece (Kudo & Richardson 2018) behind optional lower-casing, as Chang et al.

    Pieces do not cross spaces, so a sentence's best segmentation is that of its words one after
    the other; each distinct word is segmented once and remembered. A model that does cross spaces
    is asked sentence by sentence.
    """

    def __init__(self, model: bytes, *, lowercase: bool, split_digit_commas: bool = False) -> None:
        self.model, self.lowercase = model, lowercase
        self.split_digit_commas = split_digit_commas
        try:
            self._pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
        except Exception as error:  # the binding raises RuntimeError or its own class by version
            raise ToolkitError(
                "a SentencePiece model must be readable by sentencepiece, but is not: it is "
                "damaged or another program's. Give the .model file that its training wrote."
            ) from error
        pieces = [self._pieces.id_to_piece(i) for i in range(self._pieces.get_piece_size())]
        self.vocabulary: Vocabulary = append_special(pieces, self._pieces.unk_id())
        self._apart = self._digit_commas(pieces) if split_digit_commas else {}
        self._forget()

    def encode(self, text: str) -> list[int]:
        """Ids of the text, no special symbols among them."""
        ids, _ = self.encode_lines([text])
        return ids.tolist()

    def encode_marked(self, text: str) -> list[int]:
        """As `encode`, but [MASK], [CLS], [SEP] and <pad> in the text stand for themselves."""
        names = {self.vocabulary.symbols[i]: i for i in self.vocabulary.special}
        pieces = re.split("(" + "|".join(map(re.escape, names)) + ")", text)
        return [i for p in pieces for i in ([names[p]] if p in names else self.encode(p))]

    def decode(self, ids: Iterable[int]) -> str:
        """Text of the ids; special symbols appear by name, between spaces."""
        symbols, special = self.vocabulary.symbols, set(self.vocabulary.special)
        words = []
        for marked, run in groupby(ids, special.__contains__):
            found = list(run)
            words += [symbols[i] for i in found] if marked else [self._pieces.decode(found)]
        return " ".join(words)

    def encode_lines(self, lines: Sequence[str]) -> tuple[Ids, Ids]:
        """All ids back to back, and how many each line has."""
        if not self._word_by_word:
            return self._encode_whole(lines)
        if len(self._rows) > CACHED_WORDS or len(self._ids) > 8 * CACHED_WORDS:
            self._forget()
        words = " ".join(lines).split(" ") if lines else []
        rows = np.fromiter(map(self._rows.__getitem__, words), np.int64, len(words))
        self._learn(self._rows.take_new())
        begins = np.frombuffer(self._begins, np.int64)
        first, counts = begins[rows], begins[rows + 1] - begins[rows]
        ends = np.cumsum(counts)
        places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - ends + counts, counts)
        ids = np.frombuffer(self._ids, np.int32)[places].astype(np.int64)
        last_words = np.cumsum(np.array([line.count(" ") + 1 for line in lines], np.int64))
        totals = np.concatenate([np.zeros(1, np.int64), ends])[last_words]
        return ids, np.diff(totals, prepend=0)

    def _encode_whole(self, lines: Sequence[str]) -> tuple[Ids, Ids]:
        split = self._segment(lines)
        lengths = np.array([len(ids) for ids in split], np.int64)
        ids = np.fromiter(chain.from_iterable(split), np.int64, int(lengths.sum()))
        return ids, lengths

    def _forget(self) -> None:
        self._rows = _Rows()
        self._ids, self._begins = array("i"), array("q", [0])

    def _learn(self, words: Sequence[str]) -> None:
        with _no_collection():
            split = self._segment(words)
        begin = self._begins.pop()
        self._ids.extend(chain.from_iterable(split))
        self._begins.extend(accumulate(map(len, split), initial=begin))

    def _segment(self, texts: Sequence[str]) -> list[list[int]]:
        split = self._pieces.encode([self._plain(text) for text in texts], num_threads=1)
        if not self._apart:
            return split
        return [[j for i in ids for j in self._apart.get(i, (i,))] for ids in split]

    def _digit_commas(self, pieces: Sequence[str]) -> dict[int, list[int]]:
        """Pieces such as 9, -> those of 9 and the comma (Lan et al. 2020, released code)."""
        apart = {}
        for number, piece in enumerate(pieces):
            if piece[-1:] == "," and piece[-2:-1].isdigit():
                inside = self._pieces.encode(piece[:-1].replace(WORD_START, ""), out_type=str)
                if not piece.startswith(WORD_START):
                    inside = [inside[0].removeprefix(WORD_START), *inside[1:]]
                apart[number] = [self._pieces.piece_to_id(p) for p in [*inside, ","] if p]
        return apart

    def _plain(self, text: str) -> str:
        return lower_without_accents(text) if self.lowercase else text

    @cached_property
    def _word_by_word(self) -> bool:
        """Whether no piece reaches over a space and spaces at the ends do not count."""
        symbols = self.vocabulary.symbols
        crossing = any(WORD_START in symbol[1:] for symbol in symbols)
        one, two, both = (self._pieces.encode(text) for text in ("a", "b", " a  b "))
        return WORD_START in symbols and not crossing and bool(both == one + two)

    def settings(self) -> dict[str, Any]:
        return {
            "kind": "sentencepiece",
            "lowercase": self.lowercase,
            "split_digit_commas": self.split_digit_commas,
            "special": self.vocabulary.roles,
        }

    def save(self, folder: Path | str) -> None:
        """dict.txt, codec.json and sentencepiece.model."""
        folder = Path(folder)
        (folder / SYMBOLS_FILE).write_text(
            write_symbols(self.vocabulary.symbols), encoding="utf-8", newline="\n"
        )
        (folder / CODEC_FILE).write_text(json.dumps(self.settings(), indent=2) + "\n")
        (folder / MODEL_FILE).write_bytes(self.model)

    @classmethod
    def load(cls, folder: Path | str) -> Codec:
        folder = Path(folder)
        try:
            settings = json.loads((folder / CODEC_FILE).read_text(encoding="utf-8"))
            symbols = read_symbols((folder / SYMBOLS_FILE).read_text(encoding="utf-8"))
            model = (folder / MODEL_FILE).read_bytes()
            options = {name: bool(settings.get(name, False)) for name in OPTIONS}
            special = dict(settings["special"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ToolkitError(
                f"{folder} must hold a readable {', '.join(FILES)}, but does not ({error}). "
                f"Run toolkit-preprocess again."
            ) from error
        codec = cls(model, **options)
        found = codec.vocabulary
        if symbols != found.symbols or special != {role: found.roles[role] for role in ROLES}:
            raise ToolkitError(
                f"{folder / SYMBOLS_FILE} must list the pieces of {MODEL_FILE} beside it, but "
                f"differs. One of them was replaced: run toolkit-preprocess again."
            )
        return codec
