"""Surprisal of words, what splits at spaces, from the tokens that they consist of.

A causal model, and the decoder of a translation model given the source, has for word w with tokens
s_1 .. s_n after the tokens c (Pimentel and Meister 2024, theorem 2)

    surprisal(w) = -log2 p(s_1 .. s_n | c) - log2 P(B | c s_1 .. s_n) + log2 P(B | c)

P(B | x) is the probability that the token after x begins a word: starts with a space, or is the end
symbol. Without it a prefix such as `cab` would also have the probability of `cabin`. Where a word
begins without the mark of a space, as the first word of byte-level tokens, P(B | c) is that of the
tokens without the mark. Tokenizers that do not mark spaces (WordPiece, words) have no correction.

A masked model has surprisal(w) = -sum_k log2 p(s_k | the text without s_k and the rest of its run
of letters), k over the tokens of w (Kauf and Ivanova 2023), without a correction; or another score
of `toolkit.tasks.completions.scorer`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from toolkit.common.arrays import FloatArray
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.generate import SurprisalOptions
from toolkit.data.text_files import read_text
from toolkit.data.tokenizers.offsets import to_line
from toolkit.data.tokenizers.vocabulary import SPACE_BYTE, WORD_START
from toolkit.generation.output import WordSurprisal
from toolkit.optim.update import Precision
from toolkit.tasks.completions.scorer import EncodedText, TextScorer
from toolkit.tasks.learner import Learner

MASKED = "within_word_left_to_right"


class SurprisalReader:
    """Reads texts with a learner of any kind that predicts tokens, in fp32."""

    def __init__(self, learner: Learner, c: SurprisalOptions, *, max_tokens: int) -> None:
        scoring: str = c.scoring
        if scoring == "auto" and MASKED in getattr(learner.task, "scorings", ()):
            scoring = MASKED
        device = learner.encoder.token_embedding.weight.device
        self.scorer = TextScorer(
            *(learner, scoring),
            precision=Precision("fp32", device),
            max_tokens=max_tokens,
            context=c.context,
        )
        self.tokenizer = learner.tokenizer.target
        vocabulary = self.tokenizer.vocabulary
        self.corrects = self.scorer.is_causal and vocabulary.mark in (WORD_START, SPACE_BYTE)
        self.begins = np.array([it.startswith(vocabulary.mark) for it in vocabulary.symbols])
        self.begins[[*vocabulary.special]] = False
        self.begins[vocabulary.sep] = True
        self.zipf = read_frequencies(Path(c.frequencies)) if c.frequencies else lambda word: None

    def encode(self, lines: Sequence[str]) -> list[EncodedText]:
        """The tokens of each line; for translation, of what follows its tab, after the source.

        An end symbol follows in causal models, which says whether the last word ends.
        """
        targets = [line.partition("\t")[2] for line in lines] if self.scorer.translates else None
        texts = self.scorer.encode(lines, targets)
        if not self.scorer.is_causal:
            return texts
        end = self.tokenizer.vocabulary.sep
        return [text._replace(tokens=np.append(text.tokens, end)) for text in texts]

    def count_tokens(self, line: str) -> int:
        """Tokens that the model reads at a time; raises if it cannot read the line."""
        source, tab, target = line.partition("\t") if self.scorer.translates else ("-", "\t", line)
        if not tab:
            raise ToolkitError("no tab between a source and a target")
        if not (source.strip() and target.strip()):
            raise ToolkitError("empty")
        [text] = self.encode([line])
        limit, context, tokens = self.scorer.max_length, self.scorer.context, len(text.tokens)
        longest = max(len(text.source), 0 if context else tokens)
        if limit and longest > limit:
            windows = "; --context reads a text in windows" if longest == tokens else ""
            raise ToolkitError(f"{longest} tokens, more than the model's {limit}{windows}")
        return max(len(text.source), min(tokens, context or tokens))

    def answer(self, lines: Sequence[str]) -> list[dict[str, list[WordSurprisal]]]:
        """What `SurprisalOutput` holds of each line."""
        return [{"words": words} for words in self.measure(lines)]

    def measure(self, lines: Sequence[str]) -> list[list[WordSurprisal]]:
        """The words of each line; they do not depend on the other lines, up to rounding."""
        found = self.scorer.score_tokens(self.encode(lines), self.begins)
        targets = [line.partition("\t")[2] if self.scorer.translates else line for line in lines]
        return [self._to_words(to_line(it), rows) for it, rows in zip(targets, found, strict=True)]

    def _to_words(self, line: str, found: FloatArray) -> list[WordSurprisal]:
        """Sums over the tokens of each word; entropy and rank are those of its first token."""
        matches = [*re.finditer(r"\S+", line)]
        tokens = self.tokenizer.encode_with_offsets([line])
        starts = [match.start() for match in matches]
        word_of = np.maximum(np.searchsorted(starts, tokens.starts, "right") - 1, 0)
        edges = np.searchsorted(word_of, np.arange(len(matches) + 1))
        log_p, _, entropy, _, log_share = found.T / math.log(2)
        is_unknown = tokens.ids == self.tokenizer.vocabulary.unk
        words = []
        for match, (first, end) in zip(matches, pairwise(edges.tolist()), strict=True):
            word = WordSurprisal(match[0], tokens=end - first, log_frequency=self.zipf(match[0]))
            if word.tokens:
                total = -float(log_p[first:end].sum())
                ending = float(log_share[first] - log_share[end]) if self.corrects else 0.0
                word = word._replace(
                    surprisal=total + ending,
                    uncorrected=total,
                    entropy=float(entropy[first]),
                    rank=int(found[first, 3]),
                    unknown=int(is_unknown[first:end].sum()),
                )
            words.append(word)
        return words


def read_frequencies(path: Path) -> Callable[[str], float]:
    """A word's frequency on the Zipf scale, from lines `word count`, as in fairseq's dict.txt:
    log10 of (count + 1) per billion of all counts + 1 (van Heuven et al. 2014).
    """
    counts = Counter[str]()
    for number, line in enumerate(read_text(path).splitlines(), 1):
        entry = re.fullmatch(r"\s*(\S+)\s+(\d+)\s*", line)
        if entry is None:
            message = f"expected a word and its count, found {line[:60]!r}. Correct the line."
            raise ToolkitError(f"{path}:{number}: {message}")
        counts[strip_word(entry[1])] += int(entry[2])
    total = counts.total() + len(counts)
    return lambda word: math.log10((counts[strip_word(word)] + 1) / total) + 9


def strip_word(word: str) -> str:
    """The word in lower case without punctuation around it, as counts of words list it."""
    return re.sub(r"^[\W_]+|[\W_]+$", "", word).lower() or word
