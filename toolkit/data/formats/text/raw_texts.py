"""Texts as a data folder in memory."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.common.errors import ToolkitError
from toolkit.data.storage.memory_folder import MemoryFolder
from toolkit.data.tokenizers.normalize import clean_texts
from toolkit.data.tokenizers.tokenizer import Tokenizer


def encode_raw_texts(
    tokenizer: Tokenizer, texts: Sequence[object], labels: Sequence[object] | None
) -> MemoryFolder:
    """A folder with one item per text that is not blank, as a single document."""
    if labels is not None:
        raise ToolkitError("this task learns from texts alone, but labels are given. Omit them.")
    return MemoryFolder("text", tokenizer, {"tokens": tokenizer.encode_lines(clean_texts(texts))})
