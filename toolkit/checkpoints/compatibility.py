"""A check that data match the tokenizer of a checkpoint."""

from __future__ import annotations

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.tokenizer import Tokenizer


def check_data_matches_checkpoint(
    data: Tokenizer, folder: str, model: Tokenizer, path: str = "the checkpoint"
) -> None:
    """Raise a ToolkitError if predictions for the data in `folder` would be meaningless."""
    if difference := data.describe_difference(model):
        raise ToolkitError(
            f"the data must have the tokenizer of {path}, but that of {folder} differs: "
            f"{difference}. Run toolkit-preprocess with --tokenizer-from {path}."
        )
