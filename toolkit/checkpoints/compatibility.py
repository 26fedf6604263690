"""Whether data are of the words and languages that a checkpoint reads."""

from __future__ import annotations

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.parallel.tokenizer import ParallelTokenizer
from toolkit.data.tokenizers.tokenizer import Tokenizer


def check_data_matches_checkpoint(
    data: Tokenizer, folder: str, model: Tokenizer, path: str = "the checkpoint"
) -> None:
    """Raise a ToolkitError where the answers to data in `folder` would mean nothing.

    A joined vocabulary serves both directions, so that languages are compared beside it; names
    that are merely others, such as `de` and `ger`, pass.
    """
    if model.fingerprint != data.fingerprint:
        raise ToolkitError(
            f"the data must have the vocabulary of {path}, but that of {folder} differs. Run "
            f"toolkit-preprocess with --tokenizer-from {path}."
        )
    if isinstance(data, ParallelTokenizer) and data.reverses(model):
        raise ToolkitError(
            f"the data must be {data.reverse} as {path} is, but those of {folder} are "
            f"{data.languages}. Run toolkit-preprocess with --tokenizer-from {path}, --source-lang "
            f"{data.target_lang} and --target-lang {data.source_lang}."
        )
