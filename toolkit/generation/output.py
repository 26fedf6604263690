"""Records that toolkit-generate produces, and writers for files, pipes, consoles and event logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from toolkit.common import json_files
from toolkit.data.raw_items import to_single_line
from toolkit.reporting.console import Console, Output, TextStream, print_plain

MaskPrediction = list[tuple[str, float]]
"""Tokens and their probabilities, most probable first."""


class FillMaskOutput(NamedTuple):
    """The predictions of a model for the [MASK] tokens of one line."""

    number: int
    """Line number, from 1."""
    text: str
    masks: list[MaskPrediction] = []  # noqa: RUF012
    note: str = ""
    """Why nothing was predicted; empty otherwise."""
    sentence: str = ""
    """The line in its predicted order, if --order was given."""

    def to_json(self) -> dict[str, object]:
        """{"line": 1, "text": ..., "masks": [[{"token": ..., "probability": ...}]], "note": ...}"""
        masks = [[{"token": t, "probability": p} for t, p in mask] for mask in self.masks]
        record = {"line": self.number, "text": self.text, "masks": masks, "note": self.note or None}
        return {**record, "sentence": self.sentence} if self.sentence else record

    def to_tsv(self) -> str:
        r"""Text, then `token probability token probability ...` per mask, or # and the note.

        Tabs of the text are written as \t.
        """
        cells = [self.sentence] if self.sentence else []
        cells += [" ".join(f"{token} {p:.4f}" for token, p in mask) for mask in self.masks]
        text = self.text.replace("\\", "\\\\").replace("\t", "\\t").replace("\r", "\\r")
        return "\t".join([text, *(cells or [f"# {self.note}"])])

    def to_console(self) -> list[str]:
        """The text, and below it one aligned row of candidates per mask, or the note."""
        cells = [[f"{token} {p:.1%}" for token, p in mask] for mask in self.masks]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        rows = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
        ordered = [self.sentence] if self.sentence else []
        return [self.text, *ordered, *(rows or [f"({self.note})"])]


class GeneratedText(NamedTuple):
    """One hypothesis as text."""

    text: str
    score: float
    log_probabilities: list[float]
    alignment: list[list[int]] | list[list[float]] = []  # noqa: RUF012
    """Pairs (source token, target token), or one row of attention weights per target token."""

    @property
    def alignment_text(self) -> str:
        """0-0 1-2, source first; weights as 0.12,0.88 per target token."""
        if all(isinstance(number, int) for row in self.alignment for number in row):
            return " ".join(f"{i}-{j}" for i, j in self.alignment)
        return " ".join(",".join(f"{weight:.3f}" for weight in row) for row in self.alignment)


class GenerationOutput(NamedTuple):
    """The hypotheses for one line or item, best first."""

    number: int
    source: str
    hypotheses: list[GeneratedText] = []  # noqa: RUF012
    reference: str | None = None
    note: str = ""
    """Why nothing was generated; empty otherwise."""

    @property
    def best(self) -> str:
        return self.hypotheses[0].text if self.hypotheses else ""

    def to_json(self) -> dict[str, object]:
        """{"line": 1, "source": ..., "reference": ..., "hypotheses": [{"text": ..., ...}]}"""
        record: dict[str, object] = {"line": self.number, "source": self.source}
        if self.reference is not None:
            record["reference"] = self.reference
        record["hypotheses"] = [
            {key: value for key, value in text._asdict().items() if key != "alignment" or value}
            for text in self.hypotheses
        ]
        return {**record, "note": self.note or None}

    def to_tsv(self, *, scores: bool) -> str:
        """One line per hypothesis: number and score if `scores`, text, alignment; without one a
        line that is empty but for the number.
        """
        rows = []
        hypotheses: Sequence[GeneratedText | None] = self.hypotheses or [None]
        for text in hypotheses:
            score, words = (f"{text.score:.4f}", to_single_line(text.text)) if text else ("", "")
            numbers = [f"{self.number}", score] if scores else []
            alignment = [text.alignment_text] if text and text.alignment else []
            rows.append("\t".join([*numbers, words, *alignment]))
        return "\n".join(rows)

    def to_fairseq(self) -> str:
        """fairseq's lines: S source, T reference, H score and hypothesis, P log-probabilities,
        A alignment, # note. Each letter is followed by the line number.
        """
        n = self.number
        rows = [f"S-{n}\t{to_single_line(self.source)}"]
        rows += [] if self.reference is None else [f"T-{n}\t{to_single_line(self.reference)}"]
        for text in self.hypotheses:
            rows.append(f"H-{n}\t{text.score:.6f}\t{to_single_line(text.text)}")
            rows.append(f"P-{n}\t{' '.join(f'{p:.4f}' for p in text.log_probabilities)}")
            rows += [f"A-{n}\t{text.alignment_text}"] if text.alignment else []
        return "\n".join([*rows, f"#-{n}\t{self.note}"] if self.note else rows)

    def to_console(self) -> list[str]:
        """The source, and below it the reference, the hypotheses with scores, and the note."""
        rows = [self.source]
        if self.reference is not None:
            rows.append(f"{'reference':>9}  {self.reference}")
        for text in self.hypotheses:
            rows.append(f"{text.score:>9.4f}  {text.text}")
            rows += [f"{'':>9}  {text.alignment_text}"] if text.alignment else []
        return [*rows, f"({self.note})"] if self.note else rows


class WordSurprisal(NamedTuple):
    """How unexpected a word is; what a word without tokens lacks is None."""

    word: str
    surprisal: float | None = None
    """In bits, of the whole word."""
    uncorrected: float | None = None
    """In bits: the sum over its tokens, without the probability that the word ends."""
    entropy: float | None = None
    """In bits, of the distribution that predicts its first token."""
    rank: int | None = None
    """Rank of its first token in this distribution, 1 for the most probable one."""
    tokens: int = 0
    unknown: int = 0
    """Number of its tokens that stand for what the vocabulary lacks."""
    log_frequency: float | None = None
    """On the Zipf scale: log10 of occurrences per billion words."""


class SurprisalOutput(NamedTuple):
    """The surprisal of the words of one line."""

    number: int
    """Line number, from 1."""
    text: str
    words: list[WordSurprisal] = []  # noqa: RUF012
    note: str = ""
    """Why nothing was measured; empty otherwise."""

    def to_json(self) -> dict[str, object]:
        """{"line": 1, "text": ..., "words": [{"word": ..., "surprisal": ..., ...}], "note": ...}"""
        words = [word._asdict() for word in self.words]
        return {"line": self.number, "text": self.text, "words": words, "note": self.note or None}

    def to_tsv(self) -> str:
        """A line per word after the number of its line; a line without words has # and the note.

        The first line of the input is preceded by the names of the columns.
        """
        rows = [["sentence", *WordSurprisal._fields]] if self.number == 1 else []
        for word in self.words:
            rows.append([str(self.number), *map(format_cell, word)])
        if self.note:
            rows.append([str(self.number), f"# {self.note}"])
        return "\n".join("\t".join(row) for row in rows)

    def to_console(self) -> list[str]:
        """The text, and below it a row for each word: surprisal, entropy and rank; or the note."""
        rows = [
            f"{format_cell(it.surprisal):>9}  {format_cell(it.entropy):>9}  {it.rank:>7}  {it.word}"
            for it in self.words
            if it.tokens
        ]
        return [self.text, *(rows or [f"({self.note})"])]


def format_cell(value: object) -> str:
    """Text as it is, four decimals of other numbers than counts, nothing for None."""
    return f"{value:.4f}" if isinstance(value, float) else "" if value is None else str(value)


AnyOutput = FillMaskOutput | GenerationOutput | SurprisalOutput
R = TypeVar("R", bound=AnyOutput)
Writer = Callable[[Sequence[R]], None]
"""Writes a batch of records."""


def to_json_line(record: AnyOutput) -> str:
    """The record as one line of JSON, without a line end."""
    return json_files.dumps(record.to_json())


def write_lines(file: TextStream, to_text: Callable[[R], str], records: Sequence[R]) -> None:
    """Write each record as text, one or several lines."""
    for record in records:
        file.write(to_text(record) + "\n")
    file.flush()


def write_events(output: Output, records: Sequence[AnyOutput]) -> None:
    """Write each record as an event "answer" of the command's --json output."""
    for record in records:
        output.write("answer", record.to_json())


def print_rows(console: Console, to_rows: Callable[[R], list[str]], records: Sequence[R]) -> None:
    """Print each record's rows after its number."""
    indent = len(str(records[-1].number)) if records else 0
    for record in records:
        first, *rest = to_rows(record)
        rows = [f"{record.number:>{indent}}  {first}", *(f"{'':{indent}}  {r}" for r in rest)]
        print_plain(console, "\n".join(rows))
