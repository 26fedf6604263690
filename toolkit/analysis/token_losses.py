"""Losses of the tokens that a model predicts in a batch of sentences, summed by sentence.

B sentences   S tokens of a sentence   N predicted tokens
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from toolkit.common.arrays import BoolArray, FloatArray, IntArray
from toolkit.data.samples.word_order import WordSentences
from toolkit.models.interface import Inputs
from toolkit.tasks.batch import to_device
from toolkit.tasks.examples import SHAPE_MULTIPLE, pad_to_multiple
from toolkit.tasks.learner import Learner


class SentenceSums(NamedTuple):
    """Sums over the predicted tokens of each sentence."""

    losses: FloatArray
    """-log p, in nats."""
    correct: FloatArray
    """Tokens that are the most probable ones."""


@torch.no_grad()
def sum_token_losses(
    learner: Learner, sentences: WordSentences, targets: BoolArray
) -> SentenceSums:
    """-log p(x_t | sentence with [MASK] at all targets), or for language models
    -log p(x_t | x_1 .. x_{t-1}), summed over the targets t of each sentence.

    `targets` marks them, B x S.
    """
    encoder, device = learner.encoder, learner.encoder.token_embedding.weight.device
    inputs, selected = to_inputs(learner, sentences, targets)
    encoder.check_ids(inputs)
    wanted = pad_to_multiple(sentences.tokens[targets], 0, SHAPE_MULTIPLE).to(device)
    positions = pad_to_multiple(selected, 0, SHAPE_MULTIPLE).to(device)
    moved = to_device(inputs, device, packs=learner.uses_packing)
    found = learner.task.score_targets(encoder, moved, positions, wanted)
    losses, correct = -found.log_probabilities, found.is_best
    rows = np.nonzero(targets)[0]
    sums = np.zeros((2, len(targets)))
    for of_sentences, of_tokens in zip(sums, (losses, correct), strict=True):
        np.add.at(of_sentences, rows, of_tokens[: len(rows)].double().cpu().numpy())
    return SentenceSums(*sums)


def to_inputs(
    learner: Learner, sentences: WordSentences, targets: BoolArray
) -> tuple[Inputs, IntArray]:
    """The batch that the encoder reads, and flat indices of the positions that predict."""
    tokens, selected = sentences.tokens, np.flatnonzero(targets)
    if learner.task.is_generative:  # padding follows, which a causal model never sees
        return Inputs(tokens=torch.from_numpy(tokens)), selected - 1
    visible = np.where(targets, learner.tokenizer.vocabulary.mask, tokens)
    padding = np.arange(tokens.shape[1]) >= sentences.lengths[:, None]
    padded = torch.from_numpy(padding) if padding.any() else None
    return Inputs(tokens=torch.from_numpy(visible), padding=padded), selected
