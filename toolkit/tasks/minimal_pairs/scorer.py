"""Scores of sentences: pseudo-log-likelihoods and log-likelihoods.

    pseudo_log_likelihood       sum_t log p(x_t | x without x_t)      (Salazar et al. 2020, eq. 1)
    within_word_left_to_right   sum_t log p(x_t | x without x_t and the rest of its word)
                                                                      (Kauf & Ivanova 2023)
    log_likelihood              sum_t log p(x_t | x_1 .. x_{t-1})

t runs over the tokens of the text. Special tokens around it are read, never scored.

B inputs   S tokens of an input   N targets
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from toolkit.common.arrays import FloatArray, IntArray, split_rows
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import TASKS
from toolkit.data.tokenizers.offsets import Span, to_line
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.vocabulary import UNFINISHED
from toolkit.data.tokenizers.words import joins
from toolkit.models.interface import Inputs
from toolkit.optim.update import Precision
from toolkit.tasks.examples import to_device
from toolkit.tasks.learner import Learner
from toolkit.tasks.task import ScoresTargets, require


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
        known = require(learner.task, ScoresTargets).scorings
        if learner.encoder.is_word_level or learner.encoder.fixed_length:
            raise ToolkitError(
                "Minimal pairs require a model that reads text of any length; this encoder reads "
                "words with their characters, or sentences of one length."
            )
        if scoring not in ("auto", *known):
            task = TASKS.find_name(type(learner.task))
            raise ToolkitError(
                f"scoring must be {' or '.join(known)} for a model trained with --task {task}, but "
                f"is {scoring}."
            )
        self.scoring = known[0] if scoring == "auto" else scoring
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
        table = TargetTable()
        for owner, sentence in enumerate(sentences):
            for row, position, token in self._requests(sentence):
                table.add(row, position, token, owner)
        totals = np.zeros(len(sentences))
        encoder, task = self.learner.encoder, require(self.learner.task, ScoresTargets)
        device = encoder.token_embedding.weight.device
        with self.precision.autocast():  # around all batches, so that weights are cast once
            for inputs, selected, targets, owners in table.batches(self.max_tokens):
                moved = to_device(inputs, device), selected.to(device), targets.to(device)
                scores = task.score_targets(encoder, *moved).log_probabilities
                np.add.at(totals, owners, scores.double().cpu().numpy())
        return totals

    def _requests(self, sentence: EncodedSentence) -> Iterator[tuple[IntArray, int, int]]:
        """Input, position and token: each after those before it, in one input, or masked.

        What is hidden with a masked token is masked too.
        """
        first, (tokens, ends) = len(self.before), sentence
        prefix = np.concatenate([self.before, tokens[:-1]])
        whole = np.concatenate([self.before, tokens, self.after])
        both = zip(tokens.tolist(), ends.tolist(), strict=True)
        for index, (token, end) in enumerate(both, first):
            if self.is_causal:
                yield prefix, index - 1, token
                continue
            masked = whole.copy()
            masked[index : first + end] = self.mask
            yield masked, index, token


def find_word_ends(tokenizer: Tokenizer, sentences: Sequence[str]) -> list[IntArray]:
    """For each token of each sentence, the index after the last token of its word.

    A word is a run of letters, with their vowel signs and accents, and digits. All other characters
    are words by themselves, as in BERT's tokenizer, and so are letters of scripts without spaces,
    as in `toolkit.data.tokenizers.words`. The characters that tokens cover decide, so the marks of
    SentencePiece, WordPiece and byte-level pieces lead to the same words.
    """
    offsets = tokenizer.encode_with_offsets(sentences)
    edges = np.stack([offsets.starts, offsets.ends], 1)
    rows = split_rows(edges, offsets.lengths)
    return [
        word_ends([(start, end) for start, end in spans.tolist()], sentence)
        for spans, sentence in zip(rows, sentences, strict=True)
    ]


def word_ends(spans: Sequence[Span], sentence: str) -> IntArray:
    """The index after the last token of each token's word, from the tokens' characters."""
    ends = np.full(len(spans), len(spans))
    for token in range(len(spans) - 1, 0, -1):
        (start, end), first = spans[token - 1], spans[token][0]
        joined = first < end or start == end == first  # bytes of a character, or a mark alone
        if first == end < len(sentence):
            joined |= joins(sentence[end - 1], sentence[first])
        joined |= sentence[max(0, end - 2) : first] == f"{UNFINISHED} "
        ends[token - 1] = ends[token] if joined else token
    return ends


class TargetTable:
    """Targets by input; equal inputs are stored, and later computed, once."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._rows: list[IntArray] = []
        self._targets: list[tuple[int, int, int, int]] = []

    def add(self, row: IntArray, position: int, target: int, owner: int) -> None:
        """Ask for log p(target) at a position of an input, on behalf of a sentence."""
        number = self._numbers.setdefault(row.tobytes(), len(self._rows))
        if number == len(self._rows):
            self._rows.append(row)
        self._targets.append((number, position, target, owner))

    def batches(self, max_tokens: int) -> Iterator[tuple[Inputs, Tensor, Tensor, IntArray]]:
        """All inputs, those of equal length together, so that none is padded.

        With the flat indices of the targets' positions into B x S, the targets, and the sentence
        that each belongs to.
        """
        if not self._rows:
            return
        lengths = np.array([len(row) for row in self._rows])
        order = np.argsort(lengths, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        targets = np.array(self._targets)
        targets[:, 0] = rank[targets[:, 0]]
        targets = targets[np.argsort(targets[:, 0], kind="stable")]
        for first, last in _cut(lengths[order], max_tokens):
            low, high = np.searchsorted(targets[:, 0], [first, last])
            number, position, target, owner = targets[low:high].T
            tokens = np.stack([self._rows[row] for row in order[first:last]])
            selected = (number - first) * tokens.shape[1] + position
            inputs = Inputs(torch.from_numpy(tokens))
            yield inputs, torch.from_numpy(selected), torch.from_numpy(target.copy()), owner


def _cut(lengths: IntArray, max_tokens: int) -> Iterator[tuple[int, int]]:
    """First and last row of batches of equal lengths, which ascend; at least one row each."""
    first = 0
    for length in np.unique(lengths):
        last = int(np.searchsorted(lengths, length, "right"))
        size = max(1, max_tokens // int(length))
        yield from ((start, min(start + size, last)) for start in range(first, last, size))
        first = last
