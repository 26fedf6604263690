"""Checks that a task makes of the kind and the tokenizer of its data folders."""

from __future__ import annotations

from typing import TypeVar

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.tokenizers.tokenizer import Tokenizer

AnyTokenizer = TypeVar("AnyTokenizer", bound=Tokenizer)


def check_kind(folder: DataFolder, kind: str, *, task: str, holds: str, options: str) -> None:
    """Raise unless the data is of the kind that the task requires."""
    if folder.kind != kind:
        raise ToolkitError(
            f"task {task} must have a folder of {holds}, but {folder.name} is of kind "
            f"{folder.kind}. Run toolkit-preprocess with {options}."
        )


def tokenizer_of_kind(
    folder: DataFolder, tokenizer_class: type[AnyTokenizer], *, task: str, holds: str, options: str
) -> AnyTokenizer:
    """The tokenizer of the data, which must be of its kind."""
    check_kind(folder, tokenizer_class.kind, task=task, holds=holds, options=options)
    if not isinstance(folder.tokenizer, tokenizer_class):
        raise ToolkitError(
            f"{folder.name} must have a tokenizer of kind {tokenizer_class.kind}, but that of "
            f"kind {folder.tokenizer.kind} was put in its place. Run toolkit-preprocess again."
        )
    return folder.tokenizer


def check_label_ids(folder: DataFolder, ids: IntArray, labels: int) -> None:
    """Raise unless every id, up to those below 0 for none, is that of a label."""
    if ids.max(initial=-1) >= labels:
        raise ToolkitError(
            f"{folder.name} must have a label for every id of its data, but has {labels} for "
            f"{ids.max() + 1} ids. Run toolkit-preprocess again."
        )


def check_same_tokenizer(folder: DataFolder, what: str) -> None:
    """Raise unless all folders have the same tokenizer; `what` names what would differ."""
    for source in folder.sources[1:]:
        if source.load_tokenizer().fingerprint != folder.tokenizer.fingerprint:
            raise ToolkitError(
                f"data folders must agree on {what}, but {source.path} differs from "
                f"{folder.path}. Preprocess one with --tokenizer-from the other."
            )
