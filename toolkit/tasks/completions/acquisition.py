"""Age of acquisition: the number of words that a model reads until it half knows a word.

    surprisal(x) = f + (c - f) / (1 + exp((x - m) / s))        x = log10(words seen)

c = n log2 V is the chance level of a word of n tokens with V symbols, f its surprisal at the last
checkpoint. m and s > 0 are fitted by least squares. The curve is half way between both levels at m,
so the age is 10^m words (Chang and Bergen 2022, with given asymptotes).

The BabyLM challenge of 2025 measures words alone, after the symbol that begins a text: AoA_word of
github.com/babylm/evaluation-pipeline-2025, with its default use_bos_only.

N checkpoints
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from toolkit.common.arrays import FloatArray
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject, decode, name_file
from toolkit.config.commands.generate import AcquisitionConfig
from toolkit.data.text_files import read_text
from toolkit.generation.output import WordSurprisal
from toolkit.metrics.classification import pearson, spearman
from toolkit.optim.update import Precision
from toolkit.tasks.completions.reading_times import ReadingTimes
from toolkit.tasks.completions.scorer import TextScorer
from toolkit.tasks.completions.surprisal import strip_word
from toolkit.tasks.learner import Learner
from toolkit.tasks.task import ScoresTargets, require


def average_words(
    data: ReadingTimes, words: Sequence[Sequence[WordSurprisal]], symbols: int
) -> dict[str, list[float]]:
    """Word -> its mean surprisal over the rows of the table, and its chance level, in bits."""
    found: dict[str, list[tuple[float, float]]] = {}
    for sentence, index in data.places:
        word = words[sentence][index]
        if word.surprisal is not None:
            level = word.tokens * math.log2(symbols)
            found.setdefault(strip_word(word.word), []).append((word.surprisal, level))
    return {word: np.mean(rows, 0).tolist() for word, rows in found.items()}


class WordContext(msgspec.Struct, frozen=True):
    """A text that a word follows, in cdi_childes.json of the BabyLM challenge."""

    context: str


MIN_CONTEXTS, MIN_LETTERS = 20, 2
"""Words with fewer are left out, as by eval_aoa.sh and load_eval of the challenge."""


def read_contexts(path: Path) -> dict[str, int]:
    """Word -> number of its contexts."""
    with name_file(path, 'Words have lists of contexts: {"dog": [{"context": "I see a"}, ...]}.'):
        tree = decode(read_text(path), dict[str, list[WordContext]])
    counts = {
        word: len(rows)
        for word, rows in tree.items()
        if len(rows) >= MIN_CONTEXTS and len(word) >= MIN_LETTERS
    }
    if not counts:
        raise ToolkitError(
            f"{path} must have words of {MIN_LETTERS} letters with {MIN_CONTEXTS} contexts, but "
            f"has none. Name cdi_childes.json of the BabyLM challenge."
        )
    return counts


def measure_alone(
    learner: Learner, words: Sequence[str], c: AcquisitionConfig
) -> dict[str, list[float]]:
    """Word -> its surprisal after the symbol that begins a text, and its chance level, in bits.

    The symbol is there twice: the challenge writes it before the word, and so does the tokenizer.
    """
    require(learner.task, ScoresTargets)
    precision = Precision("fp32", learner.encoder.token_embedding.weight.device)
    scorer = TextScorer(learner, c.scoring, precision=precision, max_tokens=c.max_tokens)
    start, symbols = scorer.before[:1], len(learner.tokenizer.vocabulary)
    count = len(start)  # 0 without special tokens
    texts = [
        it._replace(
            tokens=np.append(start, it.tokens),
            ends=np.append(np.arange(count) + 1, it.ends + count),
            first=count,
        )
        for it in scorer.encode(words)
    ]
    bits = (scorer.score(texts)[0] / -math.log(2)).tolist()
    levels = [text.size * math.log2(symbols) for text in texts]
    return {word: [*row] for word, *row in zip(words, bits, levels, strict=True)}


STEPS = np.stack(np.meshgrid(*[np.linspace(-1, 1, 41)] * 2), -1).reshape(-1, 2)


def fit_age(words: FloatArray, surprisals: FloatArray, chance: float) -> float:
    """Words seen at half way; NaN if this is before the first or after the last checkpoint.

    The best m and log s of a grid are the center of the next one, which is a fifth as wide.
    """
    x, final = np.log10(words), surprisals[-1]
    if final >= chance:
        return math.nan
    shares = (surprisals - final) / (chance - final)
    best, reach = np.array([x[[0, -1]].mean(), -0.5]), np.array([0.6 * np.ptp(x), 2.5])
    for _ in range(8):
        grid = best + reach * STEPS
        curves = (1 + np.tanh((grid[:, :1] - x) / np.exp(grid[:, 1:].clip(-3, 2)) / 2)) / 2
        best, reach = grid[((curves - shares) ** 2).sum(1).argmin()], reach / 5
    return float(10 ** best[0]) if x[0] <= best[0] <= x[-1] else math.nan


def acquire(records: Sequence[JsonObject], human: Mapping[str, float]) -> JsonObject:
    """The age of each word by the checkpoints of a run; correlations of its log with human ages."""
    seen = np.array([record["words"] for record in records], float)
    levels = {word: chance for word, (_, chance) in records[-1]["surprisals"].items()}
    curves = {word: np.array([it["surprisals"][word][0] for it in records]) for word in levels}
    ages = {word: fit_age(seen, curve, levels[word]) for word, curve in curves.items()}
    half = {word: (levels[word] + curve[-1]) / 2 for word, curve in curves.items()}
    early = [
        it for it, age in ages.items() if math.isnan(age) and curves[it][0] < half[it] < levels[it]
    ]
    both = {word: age for word, age in ages.items() if np.isfinite([age, human[word]]).all()}
    pairs = np.array([human[word] for word in both]), np.log10([*both.values()])
    return {
        **{"words": len(ages), "acquired": int(np.isfinite([*ages.values()]).sum())},
        **{"before_first": early, "compared": len(both)},
        **{"spearman": spearman(*pairs), "pearson": pearson(*pairs)},
        "ages": {
            word: [None if math.isnan(it) else it for it in (age, human[word])]
            for word, age in ages.items()
        },
    }
