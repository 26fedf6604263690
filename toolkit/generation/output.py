"""Answers for people (aligned), for pipes (tab-separated) and for programs (JSON lines)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from rich.console import Console

from toolkit.common import json_files
from toolkit.generation.fill_mask import FillMaskOutput
from toolkit.reporting.json_output import Output

ESCAPES = {"\t": "\\t", "\r": "\\r", "\\": "\\\\"}


@runtime_checkable
class TextFile(Protocol):
    def write(self, text: str, /) -> int: ...
    def flush(self) -> None: ...


@runtime_checkable
class FillMaskWriter(Protocol):
    def write(self, answers: list[FillMaskOutput]) -> None: ...


class FillMaskJsonWriter:
    """{"line": 1, "text": ..., "masks": [[{"token": ..., "probability": ...}]], "note": ...}"""

    def __init__(self, file: TextFile) -> None:
        self.file = file

    def write(self, answers: list[FillMaskOutput]) -> None:
        for answer in answers:
            self.file.write(json_files.dumps(fill_mask_record(answer)) + "\n")
        self.file.flush()


def fill_mask_record(answer: FillMaskOutput) -> dict[str, Any]:
    """As JSON."""
    masks = [[{"token": t, "probability": p} for t, p in gap] for gap in answer.masks]
    found = {"line": answer.line, "text": answer.text, "masks": masks, "note": answer.note or None}
    return {**found, "sentence": answer.sentence} if answer.sentence else found


class FillMaskEventWriter:
    """The same among the figures of a command: {"event": "answer", "line": 1, ...}."""

    def __init__(self, output: Output) -> None:
        self.output = output

    def write(self, answers: list[FillMaskOutput]) -> None:
        for answer in answers:
            self.output.write("answer", fill_mask_record(answer))


class FillMaskTsvWriter:
    """A line for a line: its text, then `token probability token probability ...` for each gap.

    In place of the gaps a note begins with #. Tabs of the text are written as a backslash and t.
    """

    def __init__(self, file: TextFile) -> None:
        self.file = file

    def write(self, answers: list[FillMaskOutput]) -> None:
        for answer in answers:
            gaps = [answer.sentence] if answer.sentence else []
            gaps += [" ".join(f"{token} {p:.4f}" for token, p in gap) for gap in answer.masks]
            text = re.sub(r"[\t\r\\]", lambda found: ESCAPES[found.group()], answer.text)
            self.file.write("\t".join([text, *(gaps or [f"# {answer.note}"])]) + "\n")
        self.file.flush()


class FillMaskConsoleWriter:
    """Each line's text, and below it for each of its gaps the candidates in columns."""

    def __init__(self, terminal: Console, readable: Callable[[str], str]) -> None:
        self.terminal, self.readable = terminal, readable

    def write(self, answers: list[FillMaskOutput]) -> None:
        indent = len(str(answers[-1].line)) if answers else 0
        for answer in answers:
            lines = [f"{answer.line:>{indent}}  {answer.text}"]
            lines += [f"{'':{indent}}  {answer.sentence}"] if answer.sentence else []
            lines += [f"{'':{indent}}  {row}" for row in format_candidates(answer, self.readable)]
            self.terminal.print(
                "\n".join(lines), markup=False, highlight=False, emoji=False, soft_wrap=True
            )


def format_candidates(answer: FillMaskOutput, readable: Callable[[str], str]) -> list[str]:
    """One row a gap, aligned; or the note."""
    cells = [[f"{readable(token)} {p:.1%}" for token, p in gap] for gap in answer.masks]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rows = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
    return rows or [f"({answer.note})"]


class GeneratedText(NamedTuple):
    """A hypothesis, to be read."""

    text: str
    score: float
    log_probabilities: list[float]
    alignment: list[list[int]] | list[list[float]] = []  # noqa: RUF012
    """Pairs (source token, symbol), or a row of shares for each symbol."""


class GenerationOutput(NamedTuple):
    """The answer to one line or item."""

    number: int
    source: str
    hypotheses: list[GeneratedText]
    """Best first; one without text where nothing was to be written."""
    reference: str | None = None
    note: str = ""
    """Why nothing was written."""

    @property
    def best(self) -> str:
        return self.hypotheses[0].text if self.hypotheses else ""


@runtime_checkable
class OutputWriter(Protocol):
    def write(self, replies: Sequence[GenerationOutput]) -> None: ...


def generation_record(reply: GenerationOutput) -> dict[str, Any]:
    """As JSON."""
    found: dict[str, Any] = {"line": reply.number, "source": reply.source}
    if reply.reference is not None:
        found["reference"] = reply.reference
    found["hypotheses"] = [
        {key: value for key, value in text._asdict().items() if key != "alignment" or value}
        for text in reply.hypotheses
    ]
    return {**found, "note": reply.note or None}


class JsonWriter:
    """{"line": 1, "source": ..., "reference": ..., "hypotheses": [{"text": ..., "score": ...}]}"""

    def __init__(self, file: TextFile) -> None:
        self.file = file

    def write(self, replies: Sequence[GenerationOutput]) -> None:
        for reply in replies:
            self.file.write(json_files.dumps(generation_record(reply)) + "\n")
        self.file.flush()


class EventWriter:
    """The same among the figures of a command."""

    def __init__(self, output: Output) -> None:
        self.output = output

    def write(self, replies: Sequence[GenerationOutput]) -> None:
        for reply in replies:
            self.output.write("answer", generation_record(reply))


class FairseqWriter:
    """fairseq's lines: S source, T reference, H score and hypothesis, P log-probability of each
    symbol, A alignment; # a note. Each letter is followed by the number of the line.
    """

    def __init__(self, file: TextFile) -> None:
        self.file = file

    def write(self, replies: Sequence[GenerationOutput]) -> None:
        for reply in replies:
            self.file.write("".join(f"{line}\n" for line in format_fairseq(reply)))
        self.file.flush()


def format_fairseq(reply: GenerationOutput) -> list[str]:
    n = reply.number
    lines = [f"S-{n}\t{to_single_line(reply.source)}"]
    lines += [] if reply.reference is None else [f"T-{n}\t{to_single_line(reply.reference)}"]
    for text in reply.hypotheses:
        lines.append(f"H-{n}\t{text.score:.6f}\t{to_single_line(text.text)}")
        lines.append(f"P-{n}\t{' '.join(f'{p:.4f}' for p in text.log_probabilities)}")
        lines += [f"A-{n}\t{alignment_text(text)}"] if text.alignment else []
    return [*lines, f"#-{n}\t{reply.note}"] if reply.note else lines


def to_single_line(text: str) -> str:
    """A space for each line end or tab, which vocabularies that spell by bytes can write."""
    return re.sub(r"[\t\r\n]", " ", text)


def alignment_text(text: GeneratedText) -> str:
    """0-0 1-2, source first; of shares, 0.12,0.88 for each symbol."""
    hard = all(isinstance(number, int) for row in text.alignment for number in row)
    if hard:
        return " ".join(f"{i}-{j}" for i, j in text.alignment)
    return " ".join(",".join(f"{share:.3f}" for share in row) for row in text.alignment)


class LineWriter:
    """A line for a line: what was written, empty where nothing was.

    Of several hypotheses, each on a line: number, score, text; so too where `scores` are wanted.
    """

    def __init__(self, file: TextFile, *, scores: bool) -> None:
        self.file, self.scores = file, scores

    def write(self, replies: Sequence[GenerationOutput]) -> None:
        for reply in replies:
            each: Sequence[GeneratedText | None] = reply.hypotheses or [None]
            for text in each:
                self.file.write("\t".join(self.columns(reply.number, text)) + "\n")
        self.file.flush()

    def columns(self, number: int, text: GeneratedText | None) -> list[str]:
        """Of what has no answer all are empty, but the number."""
        score, said = (f"{text.score:.4f}", to_single_line(text.text)) if text else ("", "")
        numbers = [f"{number}", score] if self.scores else []
        return [*numbers, said, *([alignment_text(text)] if text and text.alignment else [])]


class ConsoleWriter:
    """Each line, and below it what was written with its score."""

    def __init__(self, terminal: Console) -> None:
        self.terminal = terminal

    def write(self, replies: Sequence[GenerationOutput]) -> None:
        indent = len(str(replies[-1].number)) if replies else 0
        for reply in replies:
            rows = [f"{reply.number:>{indent}}  {reply.source}"]
            if reply.reference is not None:
                rows.append(f"{'':{indent}}  {'reference':>9}  {reply.reference}")
            for text in reply.hypotheses:
                rows.append(f"{'':{indent}}  {text.score:>9.4f}  {text.text}")
                rows += (
                    [f"{'':{indent}}  {'':>9}  {alignment_text(text)}"] if text.alignment else []
                )
            rows += [f"{'':{indent}}  ({reply.note})"] if reply.note else []
            self.terminal.print(
                "\n".join(rows), markup=False, highlight=False, emoji=False, soft_wrap=True
            )
