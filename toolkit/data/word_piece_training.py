"""Learning WordPiece's vocabulary from text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from toolkit.common.errors import ToolkitError
from toolkit.config.preprocess import PreprocessConfig
from toolkit.data.vocabulary import WORD_REST
from toolkit.data.word_pieces import SPECIAL, tokenizers


def train_word_pieces(items: Sequence[str], config: PreprocessConfig) -> list[str]:
    """Special symbols, characters, then the most frequent pairs of pieces joined, again and again.

    This is how the package tokenizers learns (byte-pair merges, Sennrich et al. 2016): Google never
    published BERT's own way. It numbers characters as they happen to lie in memory; given in order
    of frequency beforehand, the same text has the same vocabulary.
    """
    package = tokenizers()
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
