"""Text as input of a trained model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from toolkit.common.errors import ToolkitError
from toolkit.data.text_files import read_text
from toolkit.distributed.world import select_device
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import Inputs
from toolkit.reporting.console import Progress
from toolkit.tasks.build import load_checkpoint
from toolkit.tasks.embed import collate_texts
from toolkit.tasks.examples import to_device
from toolkit.tasks.learner import Learner

BATCH_SIZE = 32  # sentences per forward pass
MAX_TOKENS = 512  # per line; an absolute position table may allow fewer


def load_reader(path: str, device: str) -> Learner:
    """The learner of a checkpoint that reads subword text, on a device."""
    learner = load_checkpoint(path)
    generates = isinstance(learner.encoder, GenerativeModel)
    if generates or learner.encoder.is_word_level:
        reads = "is a generative model" if generates else "reads words with their characters"
        raise ToolkitError(
            f"toolkit-plot needs an encoder-only model that reads subword text; {path} {reads}."
        )
    return learner.to(select_device(device))


def model_device(learner: Learner) -> torch.device:
    """The device of a learner."""
    return learner.encoder.token_embedding.weight.device


def read_lines(path: str) -> list[str]:
    """Non-blank lines of a text file."""
    text = read_text(Path(path), may_be_empty=True, allow_pipe=True)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not lines:
        raise ToolkitError(f"--sentences must contain text, but {path} is empty.")
    return lines


def encode_sentence(learner: Learner, sentence: str, subject: str = "") -> list[int]:
    """[CLS] sentence [SEP]; special tokens may be spelled out in the text.

    If it is too long, raises a ToolkitError about `subject`, or truncates if there is none.
    """
    vocabulary = learner.tokenizer.vocabulary
    longest = min(MAX_TOKENS, learner.encoder.max_positions or MAX_TOKENS)
    ids = learner.tokenizer.encode_parsing_special(sentence)
    ids = [vocabulary.cls, *ids, vocabulary.sep]
    if subject and len(ids) > longest:
        raise ToolkitError(
            f"{subject} must have at most {longest} tokens for this model, but "
            f"{sentence[:60]!r} has {len(ids)}. Shorten it."
        )
    return ids[:longest]


def batch_lines(
    learner: Learner, lines: Sequence[str], source: str = "text", size: int = BATCH_SIZE
) -> Iterator[TextBatch]:
    """Batches of lines of similar length, with a progress bar; special tokens are not included."""
    vocabulary, device = learner.tokenizer.vocabulary, model_device(learner)
    encoded = sorted((encode_sentence(learner, line) for line in lines), key=len)
    others = torch.tensor([vocabulary.pad, *vocabulary.special])
    with Progress(f"reading {source}", len(lines), "sentences") as progress:
        for start in range(0, len(encoded), size):
            inputs = collate_texts(encoded[start : start + size], vocabulary.pad)
            included = ~torch.isin(inputs.tokens, others)
            yield TextBatch(to_device(inputs, device), included.to(device))
            progress.advance(len(included))


@contextmanager
def evaluating(module: nn.Module, hooks: Sequence[RemovableHandle]) -> Iterator[None]:
    """Evaluation mode; on exit the mode is restored and the hooks are removed."""
    training = module.training
    try:
        module.eval()
        yield
    finally:
        module.train(training)
        for hook in hooks:
            hook.remove()


class TextBatch(NamedTuple):
    """A batch of sentences, and which tokens to average over."""

    inputs: Inputs
    included: Bool[Tensor, "B S"]


def check_selection(option: str, selected: Sequence[int], known: Sequence[int], path: str) -> None:
    """Raise unless all selected numbers are known; anything is allowed if none are."""
    unknown = sorted(set(selected) - set(known))
    if unknown and known:
        raise ToolkitError(
            f"{option} of {path} must be between {min(known)} and {max(known)}, but one is "
            f"{unknown[0]}."
        )
