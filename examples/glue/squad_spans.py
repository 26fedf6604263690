"""Check that the token spans of SQuAD's answers reproduce the answers' text.

python examples/glue/squad_spans.py FOLDER [--split train] [--tokens 384] [--stride 128] [--show 20]

FOLDER is a data folder of toolkit-preprocess --format squad. For the first answer of each question
(the training target), the text of its token span in a window is compared with the answer. Every
mismatch is listed with its reason; toolkit-preprocess --json has the reasons for all answers.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator

import numpy as np

from toolkit.data.formats.qa.format import character_span
from toolkit.data.storage.data_folder import DataFolder
from toolkit.metrics.translation import exact_match
from toolkit.reporting.tables import Table
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.squad.examples import SquadConfig, SquadExamples

EXACT = "exact"
BATCH = 64


def read_back(examples: SquadExamples) -> Iterator[tuple[int, str]]:
    """Question and the text of its answer's span, for every window that contains the answer."""
    split, windows = examples.split, examples.windows
    for start in range(0, len(examples.lengths), BATCH):
        ids = np.arange(start, min(start + BATCH, len(examples.lengths)))
        batch = examples.collate(ids, None)
        for row in (batch.starts > 0).nonzero()[:, 0].tolist():
            window = start + row
            question = int(windows.question_ids[window])
            skipped = int(windows.starts[window] - batch.passage_starts[row])
            tokens = (int(limits[row]) + skipped for limits in (batch.starts, batch.ends))
            passage = split.read_passage(question)
            characters = character_span(passage.begins, passage.ends, *tokens)
            yield question, passage.text[slice(*characters)]


def outcome(texts: list[str], wanted: str, room: bool) -> str:
    """How well the span of an answer matches it."""
    if not texts:
        return "split between windows" if room else "no token covers it"
    if texts[0] == wanted.strip():
        return EXACT
    same = "same by the official rules" if exact_match(texts[0], wanted) else "other text"
    return f"starts or ends inside a token, {same}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--split", default="train")
    parser.add_argument("--tokens", type=int, default=384)
    parser.add_argument("--stride", type=int, default=128)
    parser.add_argument("--show", type=int, default=20)
    args = parser.parse_args()
    c = SquadConfig(tokens_per_sample=args.tokens, stride=args.stride)
    examples = SquadExamples(c, SplitSource(DataFolder.open(args.folder), args.split))
    split = examples.split
    texts_by_question: dict[int, list[str]] = {}
    for question, text in read_back(examples):
        texts_by_question.setdefault(question, []).append(text)
    counts, mismatches = Counter[str](), []
    for question, record in enumerate(split.records):
        if record["answers"]:
            wanted, texts = record["answers"][0], texts_by_question.get(question, [])
            assert len(set(texts)) < 2, "all windows with the answer have the same text"
            why = outcome(texts, wanted, bool(split.spans[question][0] >= 0))
            counts[why] += 1
            if why != EXACT:
                mismatches.append(f"{record['id']}: {wanted!r}, span {texts[:1]}: {why}")
    total = counts.total()
    rows = [[why, n, f"{n / total:.2%}"] for why, n in counts.most_common()]
    caption = f"{total:,} answers of {args.split} in {len(examples.lengths):,} windows"
    Table(
        columns=("answer", "count", "share"), rows=rows, right_align=("share",), caption=caption
    ).print()
    print("\n".join(mismatches[: args.show]))


if __name__ == "__main__":
    main()
