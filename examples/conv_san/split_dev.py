"""Split a treebank file: the first 90 % of its sentences to train.conllu, the rest to dev.conllu.

python split_dev.py xx-ud-dev.conllu[.xz] FOLDER
"""

from __future__ import annotations

import lzma
import sys
from pathlib import Path

TRAIN_FRACTION = 0.9


def sentences(path: Path) -> list[str]:
    data = path.read_bytes()
    text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode("utf-8")
    return [block + "\n\n" for block in text.split("\n\n") if block.strip()]


def main(source: str, folder: str) -> None:
    if not Path(source).is_file():
        sys.exit(f"No such file: {source}. Expected one development set, .conllu or .conllu.xz.")
    blocks = sentences(Path(source))
    split = int(TRAIN_FRACTION * len(blocks))
    Path(folder, "train.conllu").write_text("".join(blocks[:split]), encoding="utf-8")
    Path(folder, "dev.conllu").write_text("".join(blocks[split:]), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
