"""SentencePiece tokenizer."""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import sentencepiece

from toolkit.common.errors import ToolkitError
from toolkit.common.files import read_bytes
from toolkit.common.json_files import JsonObject
from toolkit.data.tokenizers.offsets import (
    TokenSpan,
    lower_without_accents,
    span_mapper,
    split_long_words,
    trim_span,
)
from toolkit.data.tokenizers.tokenizer import SYMBOLS_FILE, TOKENIZER_CONFIG_FILE, Tokenizer
from toolkit.data.tokenizers.vocabulary import WORD_START, append_special

MODEL_FILE = "sentencepiece.model"
BATCH_TEXTS = 32  # fewer texts are encoded one by one: a batch starts a thread, which costs more
THREADS = 16  # fixed, because sums in the training depend on it
MIN_LONGEST_TEXT = 500_000
OPTIONS = ("lowercase", "split_digit_commas")


class SentencePieceTokenizer(Tokenizer):
    """SentencePiece (Kudo & Richardson 2018) after optional lower-casing, as in Chang et al. 2021.

    Pieces do not cross spaces, so the best segmentation of a sentence is that of its words in
    order, and each distinct word is segmented once. A model with pieces that cross spaces segments
    whole lines.
    """

    kind = "sentencepiece"
    files = (SYMBOLS_FILE, TOKENIZER_CONFIG_FILE, MODEL_FILE)

    def __init__(self, model: bytes, *, lowercase: bool, split_digit_commas: bool = False) -> None:
        self.model, self.split_digit_commas = model, split_digit_commas
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except Exception as error:  # RuntimeError or a class of the binding, depending on version
            raise ToolkitError(
                "a SentencePiece model must be readable by sentencepiece, but is not: it is "
                "damaged or another program's. Give the .model file that its training wrote."
            ) from error
        pieces = [self._processor.id_to_piece(i) for i in range(self._processor.get_piece_size())]
        super().__init__(append_special(pieces, self._processor.unk_id()), lowercase=lowercase)
        self._split_pieces = self._split_digit_commas(pieces) if split_digit_commas else {}
        # unless a piece crosses a space or spaces at the ends of a line count
        crossing = any(WORD_START in piece[1:] for piece in pieces)
        one, two, both = (self._processor.encode(text) for text in ("a", "b", " a  b "))
        self.word_by_word = WORD_START in pieces and not crossing and both == one + two

    @classmethod
    def _train(
        cls,
        lines: Sequence[str],
        *,
        vocabulary_size: int,
        lowercase: bool,
        split_digit_commas: bool = False,
        **options: Any,
    ) -> SentencePieceTokenizer:
        items = [split_long_words(lower_without_accents(t) if lowercase else t) for t in lines]
        longest = max(len(item.encode()) for item in items)
        options["max_bytes"] = max(longest, MIN_LONGEST_TEXT)
        model = train_pieces(items, vocabulary_size=vocabulary_size, **options)
        return cls(model, lowercase=lowercase, split_digit_commas=split_digit_commas)

    def _locate(self, text: str) -> list[TokenSpan]:
        normalized, to_original = self.normalize(text), span_mapper(text, self.lowercase)
        encoded = self._processor.encode(normalized, return_type="offset_mapping")
        pieces = zip(encoded["ids"], encoded["offsets"], strict=True)
        parts = (part for i, span in pieces for part in self._split((i, *span)))
        return [(i, *to_original(trim_span(normalized, (start, end)))) for i, start, end in parts]

    def _split(self, piece: TokenSpan) -> list[TokenSpan]:
        """The pieces that this one is split into, with their spans."""
        number, start, end = piece
        if number not in self._split_pieces:
            return [piece]
        ids = self._split_pieces[number]
        widths = (len(self.vocabulary.symbols[i].removeprefix(WORD_START)) for i in ids)
        edges = [min(edge, end) for edge in accumulate(widths, initial=start)]
        return [(i, *edge) for i, edge in zip(ids, pairwise(edges), strict=True)]

    def _encode_after_special(self, text: str, special: int) -> list[int]:
        """Ids without the mark of a word's start, unless the text begins with a space."""
        if text[:1].isspace():
            return self.encode(text)
        return self._split_all(self._unmarked_processor.encode(self.normalize(text)))

    @cached_property
    def _unmarked_processor(self) -> sentencepiece.SentencePieceProcessor:
        """The model without the mark of a word's start before the text."""
        proto = parse_model(self.model)
        proto.normalizer_spec.add_dummy_prefix &= proto.trainer_spec.treat_whitespace_as_suffix
        return sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._processor.decode(list(ids)))

    def _segment(self, texts: Sequence[str]) -> list[list[int]]:
        normalized, encode = [self.normalize(text) for text in texts], self._processor.encode
        if len(texts) < BATCH_TEXTS:
            return [self._split_all(encode(text)) for text in normalized]
        return [*map(self._split_all, encode(normalized, num_threads=1))]

    def _split_all(self, ids: list[int]) -> list[int]:
        pieces = self._split_pieces
        return [j for i in ids for j in pieces.get(i, (i,))] if pieces else ids

    def _split_digit_commas(self, pieces: Sequence[str]) -> dict[int, list[int]]:
        """Pieces such as `9,` -> those of `9` and the comma (Lan et al. 2020, released code)."""
        split = {}
        for number, piece in enumerate(pieces):
            if piece[-1:] == "," and piece[-2:-1].isdigit():
                digits = self._processor.encode(piece[:-1].replace(WORD_START, ""), return_type=str)
                if not piece.startswith(WORD_START):
                    digits = [digits[0].removeprefix(WORD_START), *digits[1:]]
                split[number] = [self._processor.piece_to_id(p) for p in [*digits, ","] if p]
        return split

    def settings(self) -> JsonObject:
        return {**super().settings(), "split_digit_commas": self.split_digit_commas}

    def save(self, folder: Path | str) -> None:
        """Write dict.txt, tokenizer_config.json and sentencepiece.model."""
        super().save(folder)
        (Path(folder) / MODEL_FILE).write_bytes(self.model)

    @classmethod
    def _restore(cls, folder: Path, settings: JsonObject, symbols: Sequence[str]) -> Tokenizer:
        options = {name: bool(settings.get(name, False)) for name in OPTIONS}
        tokenizer = cls(read_bytes(folder / MODEL_FILE), **options)
        vocabulary = tokenizer.vocabulary
        if list(symbols) != vocabulary.symbols or settings["special"] != vocabulary.roles:
            raise ToolkitError(
                f"{folder / SYMBOLS_FILE} must list the pieces of {MODEL_FILE}, but differs. One "
                f"of them was replaced: run toolkit-preprocess again."
            )
        return tokenizer


def parse_model(model: bytes) -> Any:
    """The protobuf message of a model."""
    messages: Any = importlib.import_module("sentencepiece.sentencepiece_model_pb2")
    proto = messages.ModelProto()
    try:
        proto.ParseFromString(model)
    except Exception as error:  # protobuf's own class
        raise ToolkitError(
            f"a SentencePiece model must be readable, but is not: {error}. Use the .model file "
            f"written by its training."
        ) from error
    return proto


def train_pieces(
    items: Iterable[str],
    *,
    vocabulary_size: int,
    algorithm: str = "unigram",
    character_coverage: float = 0.9995,
    max_bytes: int = MIN_LONGEST_TEXT,
) -> bytes:
    """A unigram (Kudo 2018) or BPE (Sennrich et al. 2016) model of at most this many pieces."""
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(items),
            model_writer=model,
            vocab_size=vocabulary_size,
            hard_vocab_limit=False,
            model_type=algorithm,
            character_coverage=character_coverage,
            max_sentence_length=max_bytes,
            num_threads=THREADS,
            minloglevel=2,
        )
    except Exception as error:  # the binding raises RuntimeError or its own class by version
        if needed := re.search(r"required_chars\. \d+ vs (\d+)", str(error)):
            raise ToolkitError(
                f"--vocab-size must be at least {needed[1]}, the number of different characters of "
                f"the text, but is {vocabulary_size}. Raise it, or lower --character-coverage."
            ) from error
        raise ToolkitError(
            f"not enough text to train {vocabulary_size} SentencePiece pieces: "
            f"{' '.join(str(error).split())}. Give more text, a smaller --vocab-size, or a "
            f"--sentencepiece-model."
        ) from error
    return model.getvalue()
