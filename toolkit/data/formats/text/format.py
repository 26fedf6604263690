"""Running text: one column of tokens, written in parts by all workers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_format
from toolkit.config.commands.preprocess import flag
from toolkit.data.formats.format import SPLITS, Block, Format, Job, SplitReport, count_column
from toolkit.data.formats.text.binarize import TOKENS, PartTask, binarize, task_bytes
from toolkit.data.formats.text.config import TextFormatConfig
from toolkit.data.preprocessing.choose_tokenizer import choose_tokenizer
from toolkit.data.preprocessing.split_files import estimate_bytes, plan_parts
from toolkit.data.preprocessing.train_tokenizer import TrainingText
from toolkit.data.preprocessing.workers import WorkerPool
from toolkit.data.storage.split_writer import ColumnType
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.wrapped import unwrap_tokenizer
from toolkit.reporting.progress import Progress

HANDLED = {"skip": "left out", "truncate": "truncated", "split": "split into several"}
SETTINGS = ("segment_by", "valid_fraction", "test_fraction", "max_item_tokens", "overlength")


@register_format("text", TextFormatConfig())
class TextFormat(Format[list[PartTask]]):
    """Running text, one item per line, paragraph or sentence."""

    kind, unit = "text", "tokens"

    def check(self) -> None:
        super().check()
        for fraction, files in (("valid_fraction", "validpref"), ("test_fraction", "testpref")):
            if getattr(self.options, fraction) and getattr(self.config, files):
                raise ToolkitError(f"{flag(fraction)} cannot be combined with {flag(files)}.")

    def read_split(self, split: str, files: Sequence[Path]) -> list[PartTask]:
        """The parts that workers write, decided by the text alone."""
        parts = plan_parts(files, self.options.segment_by)
        return [PartTask(split, number, part) for number, part in enumerate(parts)]

    def max_workers(self, splits: Mapping[str, list[PartTask]]) -> int:
        return sum(len(tasks) for tasks in splits.values())

    def choose_tokenizer(
        self, splits: Mapping[str, list[PartTask]], folder: Path, pool: WorkerPool
    ) -> Tokenizer:
        parts = [task.chunks for task in splits.get("train", ())]
        text = TrainingText(parts, self.options.segment_by, self.config.max_line_bytes)
        return unwrap_tokenizer(choose_tokenizer(self.config, text, pool))

    def columns(self, split: str, tokenizer: Tokenizer) -> Mapping[str, ColumnType]:
        return {TOKENS: tokenizer.vocabulary}

    def encode(self, split: str, content: list[PartTask], job: Job) -> Iterator[Block]:
        raise NotImplementedError("workers write whole parts")

    def write(self, splits: Mapping[str, list[PartTask]], job: Job) -> dict[str, dict[str, Any]]:
        tasks = [task for split in splits.values() for task in split]
        work = partial(
            binarize,
            folder=job.folder,
            options=self.options,
            max_line_bytes=self.config.max_line_bytes,
        )
        with Progress("binarizing", sum(map(task_bytes, tasks)), "tokens") as progress:
            results = job.pool.map(work, tasks, size=weight, on_progress=progress.advance)
        parts: dict[str, list[Any]] = defaultdict(list)
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for result in results:
            for split, written in result.items():
                counts[split].update(written["counts"])
                if written["part"]["items"]:
                    parts[split].append(written["part"])
        self.check_not_empty(set(parts))
        dtype = job.tokenizer.vocabulary.dtype
        return {
            split: {**counts[split], "columns": {TOKENS: {"dtype": dtype, "parts": parts[split]}}}
            for split in SPLITS
            if split in parts
        }

    def check_not_empty(self, written: set[str]) -> None:
        """Every split that was asked for must have items."""
        limit, nothing = self.options.max_item_tokens, "blank lines"
        if limit and self.options.overlength == "skip":
            nothing = f"lines that are blank or have more than {limit} tokens"
        for split in SPLITS:
            files, fraction = getattr(self.config, f"{split}pref"), f"{split}_fraction"
            if files and split not in written:
                raise ToolkitError(
                    f"{split}pref must hold text, but {files} has only {nothing}. Give other files."
                )
            if getattr(self.options, fraction, 0) and split not in written:
                raise ToolkitError(
                    f"the text is too short to hold out {getattr(self.options, fraction)} of it. "
                    f"Raise {flag(fraction)}, or give --{split}pref."
                )

    def settings(self, tokenizer: Tokenizer) -> dict[str, Any]:
        own = tokenizer.settings()
        del own["special"]
        return {
            "tokenizer": own.pop("kind"),
            **own,
            **{name: getattr(self.options, name) for name in SETTINGS},
        }

    @property
    def heads(self) -> tuple[str, ...]:  # type: ignore[override]
        limit = self.options.max_item_tokens
        limited = (f"over {limit}", "tokens lost") if limit else ()
        return ("documents", "items", "tokens", "unknown", *limited, "parts")

    def report_split(
        self, split: str, content: list[PartTask] | None, entry: Mapping[str, Any]
    ) -> SplitReport:
        column = entry["columns"][TOKENS]
        sizes, parts = count_column(column), len(column["parts"])
        counts = {name: entry[name] for name in ("unknown", "overlength", "lost_tokens", "empty")}
        cells = [f"{sizes[name]:,}" for name in ("documents", "items", "tokens")]
        cells.append(f"{counts['unknown'] / sizes['tokens']:.3%}")
        if self.options.max_item_tokens:
            cells += [f"{counts[name]:,}" for name in ("overlength", "lost_tokens")]
        record = {**sizes, **counts, "parts": parts}
        return SplitReport(record, [*cells, str(parts)], sizes["tokens"], self.notes(split, counts))

    def notes(self, split: str, counts: Mapping[str, int]) -> list[str]:
        """What the table does not say of items that were changed or left out."""
        notes = []
        if number := counts["overlength"]:
            notes.append(f"{split}: {items(number)} too long, {HANDLED[self.options.overlength]}")
        if number := counts["empty"]:
            notes.append(f"{split}: {items(number)} of invisible characters only, left out")
        return notes


def weight(task: PartTask) -> int:
    """About how many bytes of text a part has."""
    return sum(map(estimate_bytes, task.chunks))


def items(number: int) -> str:
    return f"{number:,} item{'s' * (number != 1)}"
