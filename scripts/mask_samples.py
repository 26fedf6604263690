"""Picks sentences of a text and hides one word of each, to show what a model fills in.

python scripts/mask_samples.py TEXT... > sentences.txt     # the hidden words go to stderr
python scripts/mask_samples.py --swap TEXT... > swapped.txt     # two words change places, in braces
"""

from __future__ import annotations

import gzip
import lzma
import re
import sys
from pathlib import Path

OPENERS = {".gz": gzip.open, ".xz": lzma.open}
SAMPLES = 6
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")  # where lines are paragraphs


def lines(path: Path) -> list[str]:
    opener = OPENERS.get(path.suffix, open)
    with opener(path, "rt", encoding="utf-8-sig", errors="replace") as file:
        return [line.strip() for line in file]


def hidden(words: list[str]) -> str | None:
    """The sentence with one word hidden; which one goes to stderr."""
    place = next((i for i in range(4, len(words) - 1) if words[i].isalpha()), None)
    if place is None:
        return None
    shown = " ".join([*words[:place], "[MASK]", *words[place + 1 :]])
    print(f"{words[place]:>15}  {shown}", file=sys.stderr)
    return shown


def swapped(words: list[str]) -> str | None:
    """The sentence with two of its words in each other's place, both in braces; it as it was."""
    places = [i for i in range(1, len(words) - 1) if words[i].isalpha() and len(words[i]) > 3]
    if len(places) < 2:
        return None
    print(f"  {' '.join(words)}", file=sys.stderr)
    first, second, shown = places[0], places[-1], list(words)
    shown[first], shown[second] = f"{{{words[second]}}}", f"{{{words[first]}}}"
    return " ".join(shown)


def fitting(text: list[str]) -> list[list[str]]:
    """The words of lines that are neither too short nor too long, nor full of signs."""
    fit = [line.split() for line in text if 8 <= len(line.split()) <= 16]
    return [words for words in fit if all(re.fullmatch(r"[\w',;-]+[.]?", w) for w in words)]


def main() -> None:
    names = [name for name in sys.argv[1:] if name != "--swap"]
    if not names:
        sys.exit(__doc__)
    make = swapped if "--swap" in sys.argv else hidden
    text = [line for name in names for line in lines(Path(name))]
    fit = fitting(text) or fitting([s for line in text for s in SENTENCE_END.split(line)])
    if not fit:
        sys.exit(f"{' '.join(names)} must have sentences of 8 to 16 words, but none was found.")
    for words in fit[len(fit) // (2 * SAMPLES) :: max(1, len(fit) // SAMPLES)][:SAMPLES]:
        if shown := make(words):
            print(shown)


if __name__ == "__main__":
    main()
