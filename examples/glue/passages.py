"""Running text for pre-training, out of sets for other purposes: python passages.py OUT FILE...

FILE: SQuAD's .json (its passages, not its questions), a folder of RACE (its articles), a .conllu
(its sentences, gathered to documents), or a .txt whose lines have &apos; and &quot; as translation
sets write them. Each becomes a .txt in OUT, paragraphs a blank line apart; what stands twice in a
file is written once."""

from __future__ import annotations

import html
import json
import sys
from collections.abc import Iterator
from pathlib import Path


def squad(path: Path) -> Iterator[str]:
    for article in json.loads(path.read_text("utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            yield paragraph["context"]


def race(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*.txt")):
        for line in path.read_text("utf-8").splitlines():
            yield json.loads(line)["article"]


def conllu(path: Path) -> Iterator[str]:
    document: list[str] = []
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("# newdoc") and document:
            yield " ".join(document)
            document = []
        if line.startswith("# text = "):
            document.append(line.removeprefix("# text = "))
    yield " ".join(document)


def escaped(path: Path) -> Iterator[str]:
    yield from (html.unescape(line) for line in path.read_text("utf-8").splitlines())


READERS = {".json": squad, ".conllu": conllu, ".txt": escaped, "": race}


def passages(source: Path) -> list[str]:
    """Its texts on one line each, once each; a file that is not what its name says ends the run."""
    try:
        texts = [" ".join(text.split()) for text in READERS[source.suffix](source)]
    except (ValueError, KeyError, TypeError) as error:  # cut-off JSON, another layout, not UTF-8
        print(f"{source}: cannot be read: {type(error).__name__} {error}", file=sys.stderr)
        sys.exit(2)
    return list(dict.fromkeys(filter(None, texts)))


def main(out: Path, sources: list[Path]) -> None:
    for source in sources:
        if source.suffix not in READERS or not source.exists():
            print(f"{source}: not a .json, .conllu, .txt or folder of RACE", file=sys.stderr)
            sys.exit(2)
    out.mkdir(parents=True, exist_ok=True)
    for number, source in enumerate(sources, 1):
        found = passages(source)
        target = out / f"{number:02}_{source.stem}.txt"
        target.write_text("\n\n".join(found) + "\n", "utf-8")
        print(f"{target}: {len(found):,} passages, {target.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
