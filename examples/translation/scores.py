"""The table of multi30k.sh: python scores.py RUNS.

BLEU is counted in two ways: as sacreBLEU does by default, on text as it stands; and in lower case,
which with words cut from punctuation is how results on Multi30k are mostly published.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from toolkit.metrics.summary import summary
from toolkit.metrics.tables import Table
from toolkit.metrics.translation_scores import corpus_scores

KINDS = {"best": "best checkpoint", "averaged-10": "last 10 averaged"}


def counted(file: Path) -> tuple[dict[str, float], dict[str, str]]:
    """Scores of what toolkit-generate wrote, and how each was counted."""
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    said = [line["hypotheses"][0]["text"] if line["hypotheses"] else "" for line in lines]
    true = [line["reference"] for line in lines]
    scores = {score.name: score for score in corpus_scores(said, true)}
    [lower] = corpus_scores(said, true, names=["bleu"], lowercase=True)
    found = {"BLEU": scores["bleu"], "BLEU, lower case": lower, "chrF": scores["chrf"]}
    return {n: s.value for n, s in found.items()}, {n: s.signature for n, s in found.items()}


def runs(folder: Path) -> Iterator[tuple[str, str, Path]]:
    """Architecture, which weights, and the file with what they wrote."""
    for run in sorted(folder.glob("arch=*")):
        arch = run.name.removeprefix("arch=").partition(",")[0]
        for kind, told in KINDS.items():
            if (file := run / f"{kind}.jsonl").exists():
                yield arch, told, file


def main() -> None:
    values: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    signatures: dict[str, str] = {}
    for arch, told, file in runs(Path(sys.argv[1])):
        scores, signatures = counted(file)
        for name, value in scores.items():
            values[arch, told][name].append(value)
    if not values:
        sys.exit(f"{sys.argv[1]} must hold translations of multi30k.sh, but there are none.")
    rows: list[list[str | int]] = []
    for (arch, told), scores in values.items():
        each = [" ".join(f"{value:.2f}" for value in found) for found in scores.values()]
        mean = f"{summary(scores['BLEU']).mean:.2f}"
        rows.append([arch, told, len(scores["BLEU"]), *each, mean])
    heads = ("architecture", "weights", "seeds", *signatures, "mean BLEU")
    Table(columns=heads, rows=rows, numbers=heads[2:]).print()
    for name, signature in signatures.items():
        print(f"{name}: {signature}")


if __name__ == "__main__":
    main()
