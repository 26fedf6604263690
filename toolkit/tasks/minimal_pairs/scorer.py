"""Scores of sentences: pseudo-log-likelihoods and log-likelihoods.

    pseudo_log_likelihood       sum_t log p(x_t | x without x_t)      (Salazar et al. 2020, eq. 1)
    within_word_left_to_right   sum_t log p(x_t | x without x_t and the rest of its word)
                                                                      (Kauf & Ivanova 2023)
    log_likelihood              sum_t log p(x_t | x_1 .. x_{t-1})

t runs over the tokens of the text. Special tokens around it are read, never scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from toolkit.common.arrays import FloatArray, IntArray, split_rows
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import TASKS
from toolkit.data.tokenizers.normalize import to_line
from toolkit.optim.update import Precision
from toolkit.tasks.batch import to_device
from toolkit.tasks.capabilities import wrong_training_error
from toolkit.tasks.learner import Learner
from toolkit.tasks.minimal_pairs.targets import TargetTable
from toolkit.tasks.minimal_pairs.words import find_word_ends


class EncodedSentence(NamedTuple):
    """The tokens of a text, without special tokens."""

    tokens: IntArray
    ends: IntArray
    """Per token, the index after the last token that is hidden with it."""


class SentenceScorer:
    """Scores sentences with a learner that fills masks or predicts the next token."""

    def __init__(
        self, learner: Learner, scoring: str, *, precision: Precision, max_tokens: int
    ) -> None:
        self.learner, self.precision, self.max_tokens = learner, precision, max_tokens
        self.scoring = choose_scoring(learner, scoring)
        self.is_causal = self.scoring == "log_likelihood"
        vocabulary = learner.tokenizer.vocabulary
        special = learner.task.special_tokens(vocabulary)
        self.before, self.after = (np.array(ids, np.int64) for ids in special)
        self.mask = vocabulary.mask

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens of a text; None if unlimited."""
        limit = self.learner.encoder.max_positions
        if limit is None:
            return None
        return limit - len(self.before) - len(self.after) + self.is_causal

    def encode(self, sentences: Sequence[str]) -> list[EncodedSentence]:
        """The tokens of each sentence."""
        tokenizer, lines = self.learner.tokenizer, [to_line(sentence) for sentence in sentences]
        rows = split_rows(*tokenizer.encode_lines(lines))
        if self.scoring == "within_word_left_to_right":
            ends = find_word_ends(tokenizer, lines)
        else:
            ends = [np.arange(1, len(row) + 1) for row in rows]
        return [EncodedSentence(*both) for both in zip(rows, ends, strict=True)]

    @torch.no_grad()
    def score(self, sentences: Sequence[EncodedSentence]) -> FloatArray:
        """One score per sentence; it does not depend on the others, up to rounding."""
        table, add = TargetTable(), self._add_prefixes if self.is_causal else self._add_masked
        for owner, sentence in enumerate(sentences):
            add(table, owner, sentence)
        totals = np.zeros(len(sentences))
        encoder, task = self.learner.encoder, self.learner.task
        device = encoder.token_embedding.weight.device
        with self.precision.autocast():  # around all batches, so that weights are cast once
            for batch in table.batches(self.max_tokens):
                inputs, selected, targets = to_device(batch.model_inputs, device)
                scores = task.score_targets(encoder, inputs, selected, targets).log_probabilities
                np.add.at(totals, batch.owners, scores.double().cpu().numpy())
        return totals

    def _add_masked(self, table: TargetTable, owner: int, sentence: EncodedSentence) -> None:
        """Ask for each token where it, and what is hidden with it, is masked."""
        row, first = np.concatenate([self.before, sentence.tokens, self.after]), len(self.before)
        both = zip(sentence.tokens.tolist(), sentence.ends.tolist(), strict=True)
        for index, (token, end) in enumerate(both):
            masked = row.copy()
            masked[first + index : first + end] = self.mask
            table.add(masked, first + index, token, owner)

    def _add_prefixes(self, table: TargetTable, owner: int, sentence: EncodedSentence) -> None:
        """Ask for each token after those before it, all in one input."""
        row = np.concatenate([self.before, sentence.tokens[:-1]])
        for index, token in enumerate(sentence.tokens.tolist()):
            table.add(row, len(self.before) - 1 + index, token, owner)


def choose_scoring(learner: Learner, scoring: str) -> str:
    """The scoring that auto means for a learner; raises a ToolkitError if it lacks it."""
    known, task = learner.task.scorings, TASKS.find_name(type(learner.task))
    if not known:
        options = "--task mlm, mpm or language_modeling"
        raise wrong_training_error("Evaluation on minimal pairs", options, task)
    if learner.encoder.is_word_level or learner.encoder.fixed_length:
        raise ToolkitError(
            "Minimal pairs require a model that reads text of any length; this encoder reads words "
            "with their characters, or sentences of one length."
        )
    if scoring not in ("auto", *known):
        raise ToolkitError(
            f"scoring must be {' or '.join(known)} for a model trained with --task {task}, but is "
            f"{scoring}."
        )
    return known[0] if scoring == "auto" else scoring
