"""Picks sentences of a text and hides one word of each, to show what a model fills in.

python scripts/mask_samples.py TEXT... > sentences.txt     # the hidden words go to stderr
"""

from __future__ import annotations

import gzip
import lzma
import re
import sys
from pathlib import Path

OPENERS = {".gz": gzip.open, ".xz": lzma.open}
SAMPLES = 6


def lines(path: Path) -> list[str]:
    opener = OPENERS.get(path.suffix, open)
    with opener(path, "rt", encoding="utf-8-sig", errors="replace") as file:
        return [line.strip() for line in file]


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    text = [line for name in sys.argv[1:] for line in lines(Path(name))]
    fit = [line.split() for line in text if 8 <= len(line.split()) <= 16]
    fit = [words for words in fit if all(re.fullmatch(r"[\w',;-]+[.]?", w) for w in words)]
    for words in fit[len(fit) // (2 * SAMPLES) :: max(1, len(fit) // SAMPLES)][:SAMPLES]:
        place = next((i for i in range(4, len(words) - 1) if words[i].isalpha()), None)
        if place is not None:
            hidden, words[place] = words[place], "[MASK]"
            print(*words)
            print(f"{hidden:>15}  {' '.join(words)}", file=sys.stderr)


if __name__ == "__main__":
    main()
