"""Submissions to GLUE: a table of index and prediction for each task."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np

from toolkit.common.arrays import AnyArray
from toolkit.common.errors import ToolkitError
from toolkit.common.output_files import write_output
from toolkit.data.formats.classification.glue_tasks import GLUE_SCHEMAS
from toolkit.data.formats.classification.split import ClassificationSplit

OPTION = "--predictions"
HEADER = "index\tprediction\n"
DATE = (1980, 1, 1, 0, 0, 0)
"""Date of every file written into a zip, so that equal predictions give equal files."""


def write_submission(split: ClassificationSplit, predictions: AnyArray, path: Path) -> None:
    """Write a file, a file with the benchmark's name in a folder, or a member of a zip."""
    text, is_zip = format_submission(split, predictions), path.suffix == ".zip"
    if not (is_zip or path.is_dir()):
        write_output(OPTION, path, text)
        return
    name, rows = submission_file(split)
    if is_zip and rows != len(split):
        raise ToolkitError(
            f"{name} in a submission must have {rows:,} rows, but split {split.name!r} of "
            f"{split.folder.name} has {len(split):,}. Preprocess the whole test file, or write to "
            f"a .tsv file."
        )
    if is_zip:
        write_output(OPTION, path, add_to_zip(path, name, text))
    else:
        write_output(OPTION, path / name, text)


def submission_file(split: ClassificationSplit) -> tuple[str, int]:
    """Name of the file, and the number of rows that the benchmark requires."""
    task = GLUE_SCHEMAS.get(split.labels.task)
    if task is None or split.name not in task.submissions:
        known = ", ".join(task.submissions) if task else "none"
        raise ToolkitError(
            f"a submission must be of a test split of GLUE, but is of {split.name!r} of "
            f"{split.labels.task}, which has {known}. Write to a .tsv file instead."
        )
    return task.submissions[split.name]


def format_submission(split: ClassificationSplit, predictions: AnyArray) -> str:
    """The table in the order of the index, whose values must be unique."""
    labels, order = split.labels, np.argsort(split.index, kind="stable")
    if len(np.unique(split.index)) < len(split):
        raise ToolkitError(
            f"every row of a submission needs its own index, but split {split.name!r} of "
            f"{split.folder.name} has one twice. Preprocess its files separately."
        )
    if split.is_regression:
        low, high = labels.bounds or (None, None)
        numbers = predictions if low is None else predictions.clip(low, high)
        form = ".3f" if labels.bounds else ".9g"  # three decimals are the benchmark's
        answers = [f"{number:{form}}" for number in numbers[order]]
    else:
        answers = [labels.classes[answer] for answer in predictions[order]]
    rows = zip(split.index[order].tolist(), answers, strict=True)
    return HEADER + "".join(f"{index}\t{answer}\n" for index, answer in rows)


def add_to_zip(path: Path, name: str, text: str) -> bytes:
    """The zip at `path`, if it exists, with the file added or replaced."""
    member = zipfile.ZipInfo(name, DATE)
    member.compress_type = zipfile.ZIP_DEFLATED
    members = [(member, text.encode())]
    if path.exists():
        try:
            with zipfile.ZipFile(path) as old:
                members += [(it, old.read(it)) for it in old.infolist() if it.filename != name]
        except (zipfile.BadZipFile, RuntimeError) as error:  # RuntimeError: it has a password
            raise ToolkitError(
                f"{path} must be a zip of answers, but is none ({error}). Move it away."
            ) from error
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as new:
        for member, data in sorted(members, key=lambda it: it[0].filename):
            new.writestr(member, data)
    return content.getvalue()
