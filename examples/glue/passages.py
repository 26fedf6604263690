"""Extract running text for pre-training from other data sets: python passages.py OUT FILE...

FILE: SQuAD's .json (its passages), a folder of RACE (its articles), a .conllu file (its sentences,
joined to documents), or a .txt file with escapes such as &apos; and &quot;, as in translation sets.
Each becomes a .txt file in OUT with a blank line between paragraphs, without duplicates."""

from __future__ import annotations

import html
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn


def lines(path: Path) -> list[str]:
    """Split at line feeds only; U+2028 and similar characters occur within texts."""
    return path.read_text("utf-8").split("\n")


def squad(path: Path) -> Iterator[str]:
    for article in json.loads(path.read_text("utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            yield paragraph["context"]


def race(path: Path) -> Iterator[str]:
    for line in lines(path):
        if line:
            yield json.loads(line)["article"]


def conllu(path: Path) -> Iterator[str]:
    document: list[str] = []
    for line in lines(path):
        if line.startswith("# newdoc") and document:
            yield " ".join(document)
            document = []
        if line.startswith("# text = "):
            document.append(line.removeprefix("# text = "))
    yield " ".join(document)


def escaped(path: Path) -> Iterator[str]:
    yield from (html.unescape(line) for line in lines(path))


READERS = {".json": squad, ".conllu": conllu, ".txt": escaped}


def fail(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(2)


def passages(source: Path) -> list[str]:
    """The distinct texts of a source, on one line each."""
    texts: dict[str, None] = {}
    for path in sorted(source.rglob("*.txt")) if source.is_dir() else [source]:
        read = race if source.is_dir() else READERS[source.suffix]
        try:
            texts.update(dict.fromkeys(" ".join(text.split()) for text in read(path)))
        except (ValueError, KeyError, TypeError, OSError) as error:  # truncated, or another layout
            kind = "an article of RACE" if source.is_dir() else f"a complete {source.suffix} file"
            fail(f"{path} is not {kind}: {error!r}. Download it again, or leave it out.")
    texts.pop("", None)
    return list(texts) or fail(f"{source} contains no text; leave it out.")


def main(out: Path, sources: list[Path]) -> None:
    for source in sources:
        if not source.is_dir() and not (source.is_file() and source.suffix in READERS):
            fail(f"{source}: expected a .json, .conllu or .txt file, or a folder of RACE.")
    out.mkdir(parents=True, exist_ok=True)
    for number, source in enumerate(sources, 1):
        texts = passages(source)
        target = out / f"{number:02}_{source.stem}.txt"
        target.write_text("\n\n".join(texts) + "\n", "utf-8")
        print(f"{target}: {len(texts):,} passages, {target.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        fail(__doc__ or "")
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
