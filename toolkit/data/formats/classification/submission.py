"""Answers as the benchmark's server takes them: a table of index and prediction for each task."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.classification.glue_tasks import GLUE_SCHEMAS
from toolkit.data.formats.classification.split import ClassificationSplit

HEADER = "index\tprediction\n"
DATE = (1980, 1, 1, 0, 0, 0)
"""Of every file written into a zip, so that equal answers make equal files."""


def write_submission(split: ClassificationSplit, given: npt.NDArray[Any], path: Path) -> None:
    """To a file, into a folder by the benchmark's name, or into a zip among its other files."""
    text, packed = format_submission(split, given), path.suffix == ".zip"
    try:
        if not (packed or path.is_dir()):
            path.write_text(text, encoding="utf-8")
            return
        name, rows = submission_file(split)
        if packed and rows != len(split):
            raise ToolkitError(
                f"{name} in a submission must have {rows:,} rows, but split {split.name!r} of "
                f"{split.folder.name} has {len(split):,}. Preprocess the whole test file, or write "
                f"to a .tsv file."
            )
        if packed:
            write_to_zip(path, name, text)
        else:
            (path / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ToolkitError(
            f"predictions must go where files can be written, but {path} cannot: "
            f"{error.strerror}. Choose another --predictions."
        ) from error


def submission_file(split: ClassificationSplit) -> tuple[str, int]:
    """Name of the file and how many rows the benchmark wants."""
    task = GLUE_SCHEMAS.get(split.labels.task)
    if task is None or split.name not in task.submissions:
        known = ", ".join(task.submissions) if task else "none"
        raise ToolkitError(
            f"a submission must be of a test split of GLUE, but is of {split.name!r} of "
            f"{split.labels.task}, whose are {known}. Write to a .tsv file instead."
        )
    return task.submissions[split.name]


def format_submission(split: ClassificationSplit, given: npt.NDArray[Any]) -> str:
    """In the order of the index, which must name every row once."""
    labels, order = split.labels, np.argsort(split.index, kind="stable")
    if len(np.unique(split.index)) < len(split):
        raise ToolkitError(
            f"every row of a submission needs its own index, but split {split.name!r} of "
            f"{split.folder.name} has one twice. Preprocess its files separately."
        )
    if split.is_regression:
        numbers = given.clip(labels.bounds[0], labels.bounds[1]) if labels.bounds else given
        form = ".3f" if labels.bounds else ".9g"  # three decimals are the benchmark's
        spelled = [f"{number:{form}}" for number in numbers[order]]
    else:
        spelled = [labels.classes[answer] for answer in given[order]]
    rows = zip(split.index[order].tolist(), spelled, strict=True)
    return HEADER + "".join(f"{index}\t{answer}\n" for index, answer in rows)


def write_to_zip(path: Path, name: str, text: str) -> None:
    """Add the file to the zip, or replace it."""
    mine = zipfile.ZipInfo(name, DATE)
    mine.compress_type = zipfile.ZIP_DEFLATED
    held = [(mine, text.encode())]
    if path.exists():
        try:
            with zipfile.ZipFile(path) as old:
                held += [(it, old.read(it)) for it in old.infolist() if it.filename != name]
        except (zipfile.BadZipFile, RuntimeError) as error:  # RuntimeError: it has a password
            raise ToolkitError(
                f"{path} must be a zip of answers, but is none ({error}). Move it away."
            ) from error
    fresh = path.with_name(f"{path.name}.new-{os.getpid()}")
    with zipfile.ZipFile(fresh, "w") as new:
        for member, data in sorted(held, key=lambda it: it[0].filename):
            new.writestr(member, data)
    fresh.replace(path)
