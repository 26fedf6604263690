"""Learning from the text: items to learn pieces from, SentencePiece models, counts of words."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable

import sentencepiece

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.preprocessing.segmentation import read_items
from toolkit.data.text_files import FileChunk
from toolkit.data.tokenizers.normalize import lower_without_accents

MAX_WORD_CHARACTERS = 256  # characters; also text that has no spaces at all
THREADS = 16  # fixed: sums in the training depend on it, the machine must not matter


def sample_items(pieces: Iterable[FileChunk], config: PreprocessConfig, share: float) -> list[str]:
    """Every so many items of one part, as the model will see them."""
    kept, seen = [], 0
    lower = (
        config.lowercase and config.tokenizer_kind == "sentencepiece"
    )  # WordPiece has a way of its own
    for piece in pieces:
        for batch in read_items(piece, config.segment_by, config.max_line_bytes):
            for item in batch.items:
                if int((seen + 1) * share) > int(seen * share):
                    kept.append(_without_long_words(lower_without_accents(item) if lower else item))
                seen += 1
    return kept


def _without_long_words(item: str) -> str:
    """Words cut at LONGEST_WORD characters, no cut of a word twice.

    What learns from them takes forever on a million characters x.
    """
    if len(item) <= MAX_WORD_CHARACTERS:
        return item
    return " ".join(cut for word in item.split(" ") for cut in _cuts(word))


def _cuts(word: str) -> Iterable[str]:
    begins = range(0, len(word), MAX_WORD_CHARACTERS)
    return dict.fromkeys(word[begin : begin + MAX_WORD_CHARACTERS] for begin in begins)


def count_words(pieces: Iterable[FileChunk], config: PreprocessConfig) -> Counter[str]:
    """How often each word comes in one part, as a dictionary will see it."""
    counts = Counter[str]()
    for piece in pieces:
        for batch in read_items(piece, config.segment_by, config.max_line_bytes):
            for item in batch.items:
                counts.update((lower_without_accents(item) if config.lowercase else item).split())
    return counts


def train_sentencepiece(items: Iterable[str], config: PreprocessConfig) -> bytes:
    """A unigram (Kudo 2018) or BPE (Sennrich et al. 2016) model with at most vocab_size pieces."""
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(items),
            model_writer=model,
            vocab_size=config.vocab_size,
            hard_vocab_limit=False,
            model_type=config.sentencepiece_type,
            character_coverage=config.character_coverage,
            max_sentence_length=config.max_line_bytes,
            num_threads=THREADS,
            minloglevel=2,
        )
    except Exception as error:  # the binding raises RuntimeError or its own class by version
        raise ToolkitError(
            f"the text must be enough to train {config.vocab_size} SentencePiece pieces, but "
            f"sentencepiece says: {' '.join(str(error).split())}. Give more text, a smaller "
            f"--vocab-size, or a --sentencepiece-model."
        ) from error
    return model.getvalue()
