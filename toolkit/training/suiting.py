"""Whether data are of the words and languages that a checkpoint reads."""

from __future__ import annotations

from toolkit.common.errors import ToolkitError
from toolkit.data.codec import Codec
from toolkit.data.parallel.codec import ParallelCodec


def refuse_unsuited(data: Codec, folder: str, model: Codec, path: str = "the checkpoint") -> None:
    """Raise a ToolkitError where the answers to data in `folder` would mean nothing.

    A joined vocabulary serves both directions, so that languages are compared beside it; names
    that are merely others, such as `de` and `ger`, pass.
    """
    if model.fingerprint != data.fingerprint:
        raise ToolkitError(
            f"the data must have the vocabulary of {path}, but that of {folder} differs. Run "
            f"toolkit-preprocess with --codec-from {path}."
        )
    if not isinstance(data, ParallelCodec) or not isinstance(model, ParallelCodec):
        return
    source, target = model.source_lang, model.target_lang
    if source != target and (data.source_lang, data.target_lang) == (target, source):
        raise ToolkitError(
            f"the data must be {model.languages} as {path} is, but those of {folder} are "
            f"{data.languages}. Run toolkit-preprocess with --codec-from {path}, --source-lang "
            f"{source} and --target-lang {target}."
        )
