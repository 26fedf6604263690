"""Samples sentences of a text and masks one word of each, as input for mask filling.

python scripts/mask_samples.py TEXT... > sentences.txt     # masked words on stderr
python scripts/mask_samples.py --swap TEXT... > swapped.txt     # two words swapped, in braces
"""

from __future__ import annotations

import gzip
import lzma
import re
import sys
from pathlib import Path

OPENERS = {".gz": gzip.open, ".xz": lzma.open}
SAMPLES = 6
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")  # if lines are paragraphs


def read_lines(path: Path) -> list[str]:
    opener = OPENERS.get(path.suffix, open)
    with opener(path, "rt", encoding="utf-8-sig", errors="replace") as file:
        return [line.strip() for line in file]


def mask_word(words: list[str]) -> str | None:
    """Mask one word of a sentence and print the word to stderr."""
    index = next((i for i in range(4, len(words) - 1) if words[i].isalpha()), None)
    if index is None:
        return None
    masked = " ".join([*words[:index], "[MASK]", *words[index + 1 :]])
    print(f"{words[index]:>15}  {masked}", file=sys.stderr)
    return masked


def swap_words(words: list[str]) -> str | None:
    """Swap two words of a sentence, in braces, and print the original to stderr."""
    indices = [i for i in range(1, len(words) - 1) if words[i].isalpha() and len(words[i]) > 3]
    if len(indices) < 2:
        return None
    print(f"  {' '.join(words)}", file=sys.stderr)
    first, second, swapped = indices[0], indices[-1], list(words)
    swapped[first], swapped[second] = f"{{{words[second]}}}", f"{{{words[first]}}}"
    return " ".join(swapped)


def select_sentences(text: list[str]) -> list[list[str]]:
    """Words of the lines with 8 to 16 words and little punctuation."""
    sentences = [line.split() for line in text if 8 <= len(line.split()) <= 16]
    return [words for words in sentences if all(re.fullmatch(r"[\w',;-]+[.]?", w) for w in words)]


def main() -> None:
    names = [name for name in sys.argv[1:] if name != "--swap"]
    if not names:
        sys.exit(__doc__)
    change = swap_words if "--swap" in sys.argv else mask_word
    text = [line for name in names for line in read_lines(Path(name))]
    fit = select_sentences(text) or select_sentences(
        [s for line in text for s in SENTENCE_END.split(line)]
    )
    if not fit:
        sys.exit(f"{' '.join(names)} has no sentences of 8 to 16 words.")
    for words in fit[len(fit) // (2 * SAMPLES) :: max(1, len(fit) // SAMPLES)][:SAMPLES]:
        if changed := change(words):
            print(changed)


if __name__ == "__main__":
    main()
