"""What toolkit-preprocess shows of questions: a row a split, what is wrong, what is not found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolkit.data.formats.qa.answer_spans import AnswerMismatch
from toolkit.data.formats.qa.passages import QuestionSource
from toolkit.data.formats.tagging.report import print_line
from toolkit.reporting.json_output import Output
from toolkit.reporting.tables import Table

SHOWN = 5
"""Things of one kind that people are shown of each split; programs are shown all."""
NUMBERS = ("questions", "passages", "none", "unlabeled", "options", "answers", "recovered")
TROUBLE = ("malformed", "mended")


def print_summary(
    destination: str,
    meta: Mapping[str, Any],
    read: Mapping[str, Sequence[QuestionSource]],
    misses: Mapping[str, Sequence[AnswerMismatch]],
    seconds: float,
    output: Output,
) -> None:
    """Passages, questions, tokens, and the share of answers that their tokens give back."""
    squad, rows, count = meta["kind"] == "squad", [], 0
    print_line(output.console, f"{destination}: {meta['settings']['questions']}")
    for split, entry in meta["splits"].items():
        facts = {name: entry[name] for name in (*NUMBERS, *TROUBLE)}
        tokens = entry["columns"]["tokens"]["parts"][0]["elements"]
        output.write("split", {"split": split, "tokens": tokens, **facts})
        numbers = [len(entry["files"]), entry["passages"], entry["questions"], tokens]
        row = [split, *(f"{n:,}" for n in numbers), f"{entry['malformed']:,}"]
        rows.append([*row, *(of_squad(entry) if squad else of_choices(entry))])
        count += entry["questions"]
        notes(split, read[split], misses[split], output)
    heads = ("split", "files", "passages", "questions", "tokens", "left out")
    own = ("without answer", "answers found") if squad else ("options", "answers")
    Table(columns=(*heads, *own), rows=rows, right_align=(*heads[1:], *own)).print(output.console)
    print_line(output.console, f"read {count:,} questions in {seconds:.1f} s")
    output.write("end", {"destdir": destination, "questions": count, "seconds": seconds})


def of_squad(entry: Mapping[str, Any]) -> list[str]:
    answers, recovered = entry["answers"], entry["recovered"]
    share = f"{recovered:,} of {answers:,} ({recovered / answers:.2%})" if answers else "none"
    return [f"{entry['none']:,}", share]


def of_choices(entry: Mapping[str, Any]) -> list[str]:
    return [f"{entry['options']:,}", f"{entry['questions'] - entry['unlabeled']:,}"]


def notes(
    split: str, sources: Sequence[QuestionSource], misses: Sequence[AnswerMismatch], output: Output
) -> None:
    """What was passed over, left out, kept all the same, and not found in its tokens."""
    for source in sources:
        for note in source.notes:
            print_line(output.console, f"{source.path}: {note}")
            output.write("note", {"split": split, "file": str(source.path), "what": note})
    for problem in (problem for source in sources for problem in source.problems):
        event = "kept" if problem.kept else "left_out"
        where = {"split": split, "file": str(problem.path), "where": problem.where}
        output.write(event, {**where, "what": problem.what})
    for miss in misses:
        output.write("miss", {"split": split, **miss._asdict()})
    problems = [problem for source in sources for problem in source.problems]
    some(split, "left out", [it for it in problems if not it.kept], output)
    some(split, "judged by its text", [it for it in problems if it.kept], output)
    some(split, "not found as it is:", misses, output)


def some(split: str, what: str, things: Sequence[object], output: Output) -> None:
    lines = list(dict.fromkeys(map(str, things)))  # an answer that several gave is told once
    for line in lines[:SHOWN]:
        print_line(output.console, f"{what} {line}")
    if len(lines) > SHOWN:
        print_line(output.console, f"and {len(lines) - SHOWN:,} more of {split} {what.rstrip(':')}")
