"""Text as input of a trained model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from toolkit.analysis.extract_kernels import TextBatch
from toolkit.checkpoints.load import load_checkpoint
from toolkit.common.errors import ToolkitError
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import Inputs
from toolkit.tasks.task import Learner

BATCH_SIZE = 32  # sentences that go through the encoder together
MAX_TOKENS = 512  # tokens of a line that are read; an absolute table may allow fewer


def load_reader(path: str, device: str) -> Learner:
    """The learner of a checkpoint that reads subword text, on a device."""
    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    learner = load_checkpoint(path)
    if learner.encoder.is_word_level:
        raise ToolkitError(
            f"toolkit-plot needs an encoder-only model that reads subword text; {path} reads words "
            f"with their characters."
        )
    if isinstance(learner.encoder, GenerativeModel):
        raise ToolkitError(
            f"toolkit-plot needs an encoder-only model that reads subword text; {path} is a "
            f"generative model."
        )
    return learner.to(chosen)


def read_lines(path: str) -> list[str]:
    """Non-blank lines of a text file."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ToolkitError(
            f"--sentences must be a readable file, but {path} is not: {error.strerror}."
        ) from error
    except UnicodeDecodeError as error:
        raise ToolkitError(
            f"--sentences must be UTF-8, but {path} is not at byte {error.start + 1}. Convert it."
        ) from error
    found = [line.strip() for line in text.split("\n") if line.strip()]
    if not found:
        raise ToolkitError(f"--sentences must contain text, but {path} is empty.")
    return found


def encode_with_special_tokens(learner: Learner, sentence: str) -> list[int]:
    """[CLS] sentence [SEP]; special tokens may be spelled out in the text."""
    words = learner.tokenizer.vocabulary
    found: list[int] = [words.cls, *learner.tokenizer.encode_parsing_special(sentence), words.sep]
    return found


def max_length(learner: Learner) -> int:
    encoder: Any = learner.encoder
    return min(MAX_TOKENS, encoder.max_positions or MAX_TOKENS)


def batch_lines(
    learner: Learner, lines: Sequence[str], size: int = BATCH_SIZE
) -> Iterator[TextBatch]:
    """Batches of lines of similar length; special tokens are not included."""
    words = learner.tokenizer.vocabulary
    device = learner.encoder.get_parameter(
        next(iter(dict(learner.encoder.named_parameters())))
    ).device
    coded = sorted(
        (encode_with_special_tokens(learner, line)[: max_length(learner)] for line in lines),
        key=len,
    )
    special = torch.tensor(words.special)
    for first in range(0, len(coded), size):
        some = [torch.tensor(ids) for ids in coded[first : first + size]]
        tokens = torch.nn.utils.rnn.pad_sequence(some, True, words.pad)
        lengths = torch.tensor([len(ids) for ids in some])
        padding = torch.arange(tokens.shape[1]) >= lengths[:, None]
        counted = ~padding & ~torch.isin(tokens, special)
        inputs = Inputs(tokens=tokens.to(device), padding=padding.to(device))
        yield TextBatch(inputs, counted.to(device))
