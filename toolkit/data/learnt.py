"""The codec of texts that a model reads between [CLS] and [SEP]: a given one, or one learnt."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.config.preprocess import PreprocessConfig
from toolkit.data.binarize import PartTask
from toolkit.data.codec import Codec
from toolkit.data.codec_choice import codec_for
from toolkit.data.parts import plan_parts
from toolkit.data.workers import Workers
from toolkit.data.wrapped_codec import bare

TEXT_FILE = "text.txt"


def codec_of_texts(
    config: PreprocessConfig, texts: Iterable[str], folder: Path, given: Codec | None
) -> Codec:
    """Without what a given one keeps beside its tokens, such as classes."""
    codec = learnt(config, texts, folder) if given is None else bare(given)
    words = codec.vocabulary
    if words.cls == words.pad:
        raise ToolkitError(
            f"the vocabulary must have [CLS] and [SEP], but that of {config.codec_from} has none. "
            f"Name another with --codec-from, or leave it out to learn one."
        )
    return codec


def learnt(config: PreprocessConfig, texts: Iterable[str], folder: Path) -> Codec:
    """From texts of the training part, each a line; how long one may be, its reader has said."""
    path, tasks, most = folder / TEXT_FILE, list[PartTask](), config.max_line_bytes
    with path.open("wb") as file:
        for text in texts:
            line = in_one_line(text).encode()
            most = max(most, len(line))
            file.write(line + b"\n")
    if path.stat().st_size:
        parts = plan_parts([path], "lines")
        tasks = [PartTask("train", number, part) for number, part in enumerate(parts)]
    config = replace(config, max_line_bytes=most)
    with Workers(1, config) as pool:
        codec = codec_for(config, tasks, pool)
    path.unlink()
    return codec


def in_one_line(text: str) -> str:
    """White space of any kind as spaces, one for each, so that no character changes its place.

    Halves of characters and NUL, which JSON can spell but no text holds, become replacements.
    """
    return re.sub("[\0\ud800-\udfff]", "\ufffd", re.sub(r"\s", " ", text))
