"""Scores of texts: pseudo-log-likelihoods and log-likelihoods.

    pseudo_log_likelihood       sum_t log p(x_t | x without x_t)      (Salazar et al. 2020, eq. 1)
    within_word_left_to_right   sum_t log p(x_t | x without x_t and the rest of its word)
                                                                      (Kauf & Ivanova 2023)
    left_to_right               sum_t log p(x_t | x_1 .. x_{t-1} and three masks)
                                                                      (BabyLM challenge 2025)
    log_likelihood              sum_t log p(x_t | x_1 .. x_{t-1})

t runs over the tokens of the text after its prefix, those that the whole text has: a token that
begins with the space before it is the first one. An encoder-decoder reads the prefix, and the log-
likelihood is that of the target. Special tokens around it are read, never scored. For models that
are not masked, left_to_right is the log-likelihood.

B inputs   S tokens of an input   N targets
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple, cast

import numpy as np
import torch

from toolkit.common.arrays import BoolArray, FloatArray, IntArray, split_rows
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import TASKS
from toolkit.data.tokenizers.offsets import to_line
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.vocabulary import UNFINISHED
from toolkit.data.tokenizers.words import joins
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import Inputs
from toolkit.optim.update import Precision
from toolkit.tasks.learner import Learner
from toolkit.tasks.task import (
    ScoresContinuations,
    ScoresTargets,
    TargetScores,
    require,
    score_targets,
)

LEFT_TO_RIGHT, FUTURE = "left_to_right", 3
"""A score of masked models, and the number of masks in place of a token and those after it."""


class EncodedText(NamedTuple):
    """The tokens of a text, without special tokens."""

    tokens: IntArray
    ends: IntArray
    """Per token, the index after the last token that is hidden with it."""
    first: int = 0
    """Index of the first token that is scored."""
    source: IntArray = np.zeros(0, np.int64)
    """What an encoder-decoder reads before it generates the text."""

    @property
    def size(self) -> int:
        """Number of tokens that are scored."""
        return len(self.tokens) - self.first


class TextScorer:
    """Scores texts with a learner that fills masks, predicts the next token or translates."""

    def __init__(
        self,
        learner: Learner,
        scoring: str,
        *,
        precision: Precision,
        max_tokens: int,
        context: int | None = None,
    ) -> None:
        self.learner, self.precision, self.max_tokens = learner, precision, max_tokens
        self.reads_first = isinstance(learner.task, ScoresContinuations)
        self.translates = self.reads_first and not isinstance(learner.task, ScoresTargets)
        known: Sequence[str] = ("log_likelihood",)
        if not self.translates:
            known = require(learner.task, ScoresTargets).scorings
        if learner.encoder.is_word_level or learner.encoder.fixed_length:
            raise ToolkitError(
                "Scores of text require a model that reads text of any length; this encoder reads "
                "words with their characters, or sentences of one length."
            )
        if scoring == LEFT_TO_RIGHT and LEFT_TO_RIGHT not in known:
            scoring = "auto"
        if scoring not in ("auto", *known):
            task = TASKS.find_name(type(learner.task))
            choices = known[0] if len(known) == 1 else f"one of {', '.join(known)}"
            raise ToolkitError(
                f"scoring must be {choices} for a model trained with --task {task}, but is "
                f"{scoring!r}."
            )
        self.scoring = known[0] if scoring == "auto" else scoring
        self.is_causal = self.scoring == "log_likelihood"
        vocabulary = learner.tokenizer.target.vocabulary
        target = (vocabulary.sep,), ()  # the end symbol starts it
        special = target if self.translates else learner.task.special_tokens(vocabulary)
        self.before, self.after = (np.array(ids, np.int64) for ids in special)
        self.mask = vocabulary.mask
        self.context = context and min(context, learner.encoder.max_positions or context)
        """Maximum number of tokens of an input, which is a window of the text; None for all."""

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens of a text; None if unlimited."""
        limit, special = self.learner.encoder.max_positions, len(self.before) + len(self.after)
        masks = (FUTURE - 1) * (self.scoring == LEFT_TO_RIGHT)
        return None if limit is None else limit - special + self.is_causal - masks

    def encode(
        self, texts: Sequence[str], options: Sequence[str] | None = None
    ) -> list[EncodedText]:
        """The tokens of each text; only those of the option that it ends with are scored.

        A token that is partly before the option is scored; an encoder-decoder reads what is before.
        """
        tokenizer, lines = self.learner.tokenizer, [to_line(text) for text in texts]
        both = zip(lines, lines if options is None else map(to_line, options), strict=True)
        before = [line[: len(line) - len(option)] for line, option in both]
        sources = [np.zeros(0, np.int64)] * len(texts)
        if self.translates:
            end = [tokenizer.vocabulary.sep]
            encoded = split_rows(*tokenizer.encode_lines([it.strip() for it in before]))
            sources = [np.concatenate([row, end]) for row in encoded]
            lines = [line[len(it) :] for line, it in zip(lines, before, strict=True)]
            tokenizer, before = tokenizer.target, [""] * len(texts)
        rows = split_rows(*tokenizer.encode_lines(lines))
        firsts = [0] * len(texts)
        if any(before):
            offsets = tokenizer.encode_with_offsets(lines)
            edges = np.stack([offsets.starts, offsets.ends], 1)
            for index, spans in enumerate(split_rows(edges, offsets.lengths)):
                start = len(before[index])
                # a token without characters, a mark, begins the word after it
                firsts[index] = int(((spans[:, 1] <= start) & (spans[:, 0] < start)).sum())
        ends = (
            find_word_ends(tokenizer, lines)
            if self.scoring == "within_word_left_to_right"
            else [np.arange(1, len(row) + 1) for row in rows]
        )
        return [EncodedText(*parts) for parts in zip(rows, ends, firsts, sources, strict=True)]

    def score(self, texts: Sequence[EncodedText]) -> FloatArray:
        """Log-probability of each text, and its number of tokens that are not the most probable."""
        rows = self.score_tokens(texts)
        return np.array([[it[:, 0].sum() for it in rows], [(1 - it[:, 1]).sum() for it in rows]])

    @torch.no_grad()
    def score_tokens(
        self, texts: Sequence[EncodedText], begins: BoolArray | None = None
    ) -> list[FloatArray]:
        """Per text, a row for each of its tokens that is scored, with columns of `TargetScores`."""
        requests = chain.from_iterable(map(self._requests, texts))
        ends = np.cumsum([text.size for text in texts])
        found = np.zeros((ends[-1], 2 if begins is None else len(TargetScores._fields)))
        encoder, task = self.learner.encoder, self.learner.task
        device = encoder.token_embedding.weight.device
        more: dict[str, Any] = (
            {} if begins is None else {"begins": torch.from_numpy(begins).to(device)}
        )
        with self.precision.autocast():  # around all batches, so that weights are cast once
            for *arrays, numbers in batch_targets(requests, self.max_tokens):
                moved = [torch.from_numpy(it).to(device) for it in arrays]
                source, rows, tokens, selected, targets = moved
                if source.numel():
                    states = require(task, ScoresContinuations).continue_states(
                        encoder, source, rows, tokens, selected
                    )
                    words = cast(GenerativeModel, encoder).output_embedding.weight
                    scores = score_targets(states, words, None, None, targets, **more)
                else:
                    scores = require(task, ScoresTargets).score_targets(
                        encoder, Inputs(tokens, causal=self.is_causal), selected, targets, **more
                    )
                columns = torch.stack([it.double() for it in scores if it is not None], 1)
                found[numbers] = columns.cpu().numpy()
        return np.split(found, ends[:-1])

    def _requests(self, text: EncodedText) -> Iterator[Request]:
        """The tokens of a text, each after those before it, or masked.

        What is hidden with a masked token is masked too. The source is read before the input; for a
        language model it is the prefix but its last token, which options share.
        """
        first, tokens = len(self.before), text.tokens
        previous = np.concatenate([self.before, tokens[:-1]])
        shares = text.first and self.reads_first and not self.context
        shared = max(0, first + text.first - 1) if shares else 0
        source = text.source if self.translates else previous[:shared]
        previous = previous[shared:]
        size = self.context or len(previous)
        most = max(1, size - first - len(self.after)) if self.context else len(tokens) + FUTURE
        for index in range(text.first, len(tokens)):
            position, token = first + index, int(tokens[index])
            if self.is_causal:
                place = position - 1 - shared
                start = window_start(place, size, len(previous))
                yield source, previous[start : start + size], place - start, token
                continue
            row, hidden = tokens, int(text.ends[index]) - index
            if self.scoring == LEFT_TO_RIGHT:
                row, hidden = np.append(tokens[:index], [self.mask] * FUTURE), FUTURE
            room = min(most, len(row))
            hidden = min(hidden, room)
            start = max(0, min(index - (room - hidden) // 2, len(row) - room))
            masked = np.concatenate([self.before, row[start : start + room], self.after])
            masked[position - start : position - start + hidden] = self.mask
            yield text.source, masked, position - start, token


def window_start(position: int, size: int, count: int) -> int:
    """Start of the first window with a position; each adds half of its size to the one before.

    So all but the first `size` positions have at least half a window before them. The last window
    ends with the text, of `count` positions.
    """
    step = size - size // 2
    steps = max(0, -((size - 1 - position) // step))
    return max(0, min(steps * step, count - size))


def find_word_ends(tokenizer: Tokenizer, sentences: Sequence[str]) -> list[IntArray]:
    """For each token of each sentence, the index after the last token of its word.

    A word is a run of letters, with their vowel signs and accents, and digits. All other characters
    are words by themselves, as in BERT's tokenizer, and so are letters of scripts without spaces,
    as in `toolkit.data.tokenizers.vocabulary`. The characters that tokens cover decide, so the
    marks of SentencePiece, WordPiece and byte-level pieces lead to the same words.
    """
    offsets = tokenizer.encode_with_offsets(sentences)
    rows = split_rows(np.stack([offsets.starts, offsets.ends], 1), offsets.lengths)
    return [word_ends(it.tolist(), line) for it, line in zip(rows, sentences, strict=True)]


def word_ends(spans: Sequence[Sequence[int]], sentence: str) -> IntArray:
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


Request = tuple[IntArray, IntArray, int, int]
"""A source and an input, a position of the input, and the token whose log p is asked there."""


def batch_targets(requests: Iterable[Request], max_tokens: int) -> Iterator[tuple[IntArray, ...]]:
    """Sources of equal length, and all inputs after them; equal ones once.

    Arrays: sources, the source of each input, inputs, the flat indices of the targets' positions
    into B x S, the targets, and the numbers of their requests. Inputs without a source have equal
    lengths; those after one are padded on the right, where a decoder does not look.
    """
    numbers = dict[tuple[bytes, bytes], int]()
    asked, rows = [], list[tuple[IntArray, IntArray]]()
    for index, (source, row, position, token) in enumerate(requests):
        number = numbers.setdefault((source.tobytes(), row.tobytes()), len(rows))
        if number == len(rows):
            rows.append((source, row))
        asked.append((number, position, token, index))
    if not rows:
        return
    seen = dict[bytes, int]()
    sources = np.array([seen.setdefault(it.tobytes(), len(seen)) for it, _ in rows])
    lengths = np.array([[len(row), len(source)] for source, row in rows])
    order = np.lexsort([lengths[:, 0], sources, lengths[:, 1]])
    targets = np.array(asked)
    targets[:, 0] = np.argsort(order)[targets[:, 0]]
    targets = targets[np.argsort(targets[:, 0], kind="stable")]
    for first, last in _cut(lengths[order], max_tokens):
        low, high = np.searchsorted(targets[:, 0], [first, last])
        number, position, target, request = targets[low:high].T
        batch = [rows[row] for row in order[first:last]]
        _, starts, places = np.unique(
            sources[order[first:last]], return_index=True, return_inverse=True
        )
        inputs = np.zeros((len(batch), max(len(row) for _, row in batch)), np.int64)
        for line, (_, row) in zip(inputs, batch, strict=True):
            line[: len(row)] = row
        selected = (number - first) * inputs.shape[1] + position
        source = np.stack([batch[start][0] for start in starts])
        yield source, places, inputs, selected, target.copy(), request


def _cut(lengths: IntArray, max_tokens: int) -> Iterator[tuple[int, int]]:
    """First and last row of batches with one length of sources; without sources, of inputs."""
    rows, sources = lengths.T
    changes = (sources[1:] != sources[:-1]) | ((sources[1:] == 0) & (rows[1:] != rows[:-1]))
    edges = np.flatnonzero(changes) + 1
    for first, last in pairwise([0, *edges.tolist(), len(lengths)]):
        size = max(1, max_tokens // int(lengths[first:last].sum(1).max()))
        yield from ((start, min(start + size, last)) for start in range(first, last, size))
