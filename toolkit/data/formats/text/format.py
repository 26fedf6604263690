"""Running text: one column of tokens, encoded in parts by all workers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.common.registry import register_format
from toolkit.data.formats.format import SPLITS, Format, Job, SplitReport, count_column
from toolkit.data.formats.text.binarize import TOKENS, PartTask, TextFormatConfig, binarize
from toolkit.data.preprocessing.choose_tokenizer import TrainingText, choose_tokenizer
from toolkit.data.preprocessing.input_files import list_row_files
from toolkit.data.preprocessing.segmentation import estimate_bytes, plan_parts
from toolkit.data.preprocessing.workers import WorkerPool
from toolkit.data.records import check_plain
from toolkit.data.storage.column_files import CheckedColumnPart, ColumnType, SplitWriter
from toolkit.data.storage.memory_folder import MemoryFolder
from toolkit.data.tokenizers.offsets import clean_texts
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.wrapped import unwrap_tokenizer
from toolkit.reporting.console import Progress

HANDLED = {"skip": "left out", "truncate": "truncated", "split": "split into several"}
ROWS = ("text_field", "rows")
SETTINGS = ("segment_by", "valid_fraction", "test_fraction", "max_item_tokens", "overlength")


@register_format("text", TextFormatConfig())
class TextFormat(Format[list[PartTask], Tokenizer]):
    """Running text, one item per line, paragraph or sentence."""

    kind, unit = "text", "tokens"
    options: TextFormatConfig

    def check(self) -> None:
        super().check()
        for split, fraction in self.held_out.items():
            if fraction and split in self.config.inputs:
                raise ToolkitError(f"--{split}-fraction cannot be combined with --{split}pref.")

    @property
    def held_out(self) -> dict[str, float]:
        """Split -> the fraction of the training text that is held out for it."""
        return {"valid": self.options.valid_fraction, "test": self.options.test_fraction}

    def list_files(self) -> Mapping[str, list[Path]]:
        if not self.options.text_field:
            return super().list_files()
        return {split: list_row_files(split, names) for split, names in self.config.inputs.items()}

    def read_split(self, split: str, files: Sequence[Path]) -> list[PartTask]:
        """The parts that workers write, decided by the text alone."""
        options = self.options
        if not options.text_field:
            for path in files:
                check_plain(path)
        parts = plan_parts(
            files,
            options.segment_by,
            options.text_field,
            row_is_document=options.rows == "documents",
        )
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

    def write(
        self, splits: Mapping[str, list[PartTask]], job: Job[Tokenizer]
    ) -> dict[str, JsonObject]:
        """Workers encode parts, which are then joined in order."""
        tasks = [task for split in splits.values() for task in split]
        work = partial(
            binarize,
            folder=job.folder,
            options=self.options,
            max_line_bytes=self.config.max_line_bytes,
        )
        with Progress("binarizing", sum(task.bytes for task in tasks), "tokens") as progress:
            results = job.pool.map(work, tasks, size=text_bytes, on_progress=progress.advance)
        parts: dict[str, list[CheckedColumnPart]] = defaultdict(list)
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for result in results:
            for split, (part, part_counts) in result.items():
                counts[split].update(part_counts)
                parts[split].append(part)
        written = {split for split, found in parts.items() if any(part.items for part in found)}
        self.check_not_empty(written)
        return {
            split: {**counts[split], "columns": self.join_parts(split, parts[split], job)}
            for split in SPLITS
            if split in written
        }

    def join_parts(
        self, split: str, parts: Sequence[CheckedColumnPart], job: Job[Tokenizer]
    ) -> JsonObject:
        """Write the column of a split from its parts, and delete them; returns its entry."""
        writer = SplitWriter(job.folder, split, self.columns(split, job.tokenizer))
        for part in parts:
            starts_document = np.zeros(part.items, bool)
            starts_document[part.document_starts] = True
            writer.add({TOKENS: (part.values, np.diff(part.offsets))}, starts_document)
            for file in part.files:
                file.unlink()
        return writer.finish()

    def check_not_empty(self, written: set[str]) -> None:
        """Raise if a requested split has no items."""
        limit, nothing = self.options.max_item_tokens, "blank lines"
        if limit and self.options.overlength == "skip":
            nothing = f"lines that are blank or have more than {limit} tokens"
        for split, files in self.config.inputs.items():
            if split not in written:
                raise ToolkitError(
                    f"{split}pref must hold text, but {files} has only {nothing}. Give other files."
                )
        for split, fraction in self.held_out.items():
            if fraction and split not in written:
                raise ToolkitError(
                    f"the text is too short to hold out {fraction} of it. Raise "
                    f"--{split}-fraction, or give --{split}pref."
                )

    def settings(self, tokenizer: Tokenizer) -> JsonObject:
        settings = tokenizer.settings()
        del settings["special"]
        names = (*SETTINGS, *ROWS) if self.options.text_field else SETTINGS
        return {
            "tokenizer": settings.pop("kind"),
            **settings,
            **{name: getattr(self.options, name) for name in names},
        }

    def report_split(
        self, split: str, content: list[PartTask] | None, entry: JsonObject
    ) -> SplitReport:
        column, limit = entry["columns"][TOKENS], self.options.max_item_tokens
        sizes = count_column(column)
        counts = {name: entry[name] for name in ("unknown", "overlength", "lost_tokens", "empty")}
        row: dict[str, int | str] = {**sizes}
        row["unknown"] = f"{counts['unknown'] / sizes['tokens']:.3%}"
        if limit:
            row |= {f"over {limit}": counts["overlength"], "tokens lost": counts["lost_tokens"]}
        notes = []
        if number := counts["overlength"]:
            handled = HANDLED[self.options.overlength]
            notes.append(f"{split}: {count_items(number)} too long, {handled}")
        if number := counts["empty"]:
            notes.append(f"{split}: {count_items(number)} of invisible characters only, left out")
        return SplitReport({**sizes, **counts}, row, sizes["tokens"], notes)


def text_bytes(task: PartTask) -> int:
    """Estimated number of bytes of the text of a part."""
    return sum(map(estimate_bytes, task.chunks))


def count_items(number: int) -> str:
    """A number of items in words."""
    return f"{number:,} item{'s' * (number != 1)}"


def encode_raw_texts(
    tokenizer: Tokenizer, texts: Sequence[object], labels: Sequence[object] | None
) -> MemoryFolder:
    """A folder with one item per text that is not blank, as a single document."""
    if labels is not None:
        raise ToolkitError("this task learns from texts alone, but labels are given. Omit them.")
    return MemoryFolder("text", tokenizer, {"tokens": tokenizer.encode_lines(clean_texts(texts))})
