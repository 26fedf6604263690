"""How much surprisal says about reading times, beyond length and frequency.

    baseline   y_i = b + sum_k (b_k length_{i-k} + c_k frequency_{i-k}) + e_i
    full       the same + sum_k d_k surprisal_{i-k}                          e_i ~ N(0, s^2)

i are words, k = 0, 1, 2: a word slows down the reading of those after it. The added log-likelihood
is the mean of log p(y_i | full) - log p(y_i | baseline) over words that neither model was fitted
to: each tenth of the sentences is predicted from the others.

The BabyLM challenge of 2025 has two scores of another kind (collate_preds.py), squared partial
correlations of a measure and the surprisal of the word, to which only the measured words belong:

    1 - (residual variance of the baseline and surprisal) / (residual variance of the baseline)

    baseline   1, the columns z_1 .. z_K, and the products z_j z_k, j < k
    rt         z = frequency, length, index in the sentence; the mean over four measures of eyes
    spr        z = these, and length (without punctuation around it) and surprisal of the word
               before; self-paced reading

N words   P columns of a regression
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, FloatArray, IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.data.records import Record, list_names, read_records
from toolkit.data.tokenizers.offsets import to_line
from toolkit.generation.output import WordSurprisal
from toolkit.tasks.completions.surprisal import strip_word

FREQUENCIES = ("log_frequency", "Subtlex_log10")
MEASURES = (
    *("RTfirstfix", "RTfirstpass", "RTgopast", "RTrightbound", "self_paced_reading_time"),
    *("ELAN", "LAN", "N400", "P600", "EPNP", "PNP"),
)
"""Columns of de Varda et al. (2023), as in the BabyLM challenge."""
SPILL_OVER, FOLDS = 2, 10
EYES, SELF_PACED = MEASURES[:4], MEASURES[4:5]


class ReadingTimes(NamedTuple):
    """Words in sentences, with measures of how they were read."""

    sentences: Sequence[str]
    first: Sequence[Record]
    """The first row of each sentence."""
    places: Sequence[tuple[int, int]]
    """Per row, its sentence and the index of its word."""
    frequencies: dict[str, float]
    measures: dict[str, FloatArray]
    """Name -> a number for each row, NaN where it is missing."""


def read_reading_times(files: Sequence[str], measures: Sequence[str]) -> ReadingTimes:
    """Rows with a sentence, the index of a word, the word itself and measures of its reading."""
    first: dict[str, Record] = {}
    numbers: dict[str, int] = {}
    places, frequencies = list[tuple[int, int]](), dict[str, float]()
    columns: dict[str, list[float]] = {}
    for row in (row for file in files for row in read_records(Path(file))):
        if not columns:
            names = measures or [name for name in MEASURES if name in row.values]
            if not names:
                known = list_names([*row.values])
                raise row.error(f"--measures must name columns of the file, such as {known}.")
            columns = {name: [] for name in names}
        sentence, word = to_line(row.text("sentence")), row.text("word")
        index, words = read_number(row, "context_length"), sentence.split()
        found = words[int(index)] if index in range(len(words)) else "missing"
        if found != word:
            raise row.error(
                f"word {index:g} of the sentence, counted from 0 by context_length, must be "
                f"{word[:40]!r}, but is {found[:40]!r}. Correct the row."
            )
        first.setdefault(sentence, row)
        places.append((numbers.setdefault(sentence, len(numbers)), int(index)))
        for name in set(FREQUENCIES) & set(row.values):
            frequencies[strip_word(word)] = read_number(row, name)
        for name, values in columns.items():
            values.append(read_number(row, name))
    if not places:
        raise ToolkitError(f"{files[0]} must have rows, but is empty.")
    arrays = {name: np.array(values) for name, values in columns.items()}
    return ReadingTimes([*numbers], [*first.values()], places, frequencies, arrays)


def read_number(row: Record, field: str) -> float:
    """The number in a field; NaN if it is empty."""
    value = row.value(field)
    try:
        return float("nan" if value in ("", "NA", None) else value)
    except (TypeError, ValueError):
        raise row.error(
            f"{field} must be a number, but is {str(value)[:40]!r}. Correct the row."
        ) from None


def list_predictors(data: ReadingTimes, words: Sequence[Sequence[WordSurprisal]]) -> FloatArray:
    """Length, log frequency and surprisal of each row's word and the two before it, N x 3 x 3.

    What is unknown is NaN. A frequency of --frequencies replaces the one of the file.
    """
    found = np.full((len(data.places), SPILL_OVER + 1, 3), np.nan)
    for row, (sentence, index) in enumerate(data.places):
        for back in range(min(index, SPILL_OVER) + 1):
            word = words[sentence][index - back]
            frequency = word.log_frequency
            if frequency is None:
                frequency = data.frequencies.get(strip_word(word.word))
            found[row, back] = np.array([len(word.word), frequency, word.surprisal], float)
    return found


def regress(name: str, y: FloatArray, x: FloatArray, sentences: IntArray) -> JsonObject:
    """What surprisal adds to the prediction of a measure, where all predictors are known."""
    known: BoolArray = np.isfinite(y) & np.isfinite(x).all((1, 2))
    y, x, sentences = y[known], x[known], sentences[known]
    groups = len(np.unique(sentences))
    baseline = np.hstack([np.ones((len(y), 1)), x[:, :, :2].reshape(len(y), 2 * x.shape[1])])
    full = np.hstack([baseline, x[:, :, 2]])
    if groups < FOLDS or len(y) < 3 * full.shape[1] or np.ptp(y) == 0:
        raise ToolkitError(
            f"{name} has {len(y)} words in {groups} sentences with all predictors (two words "
            f"before it, with frequencies), which are too few, or have one value. Add "
            f"--frequencies, or more rows."
        )
    gains = np.zeros(len(y))
    for fold in range(FOLDS):
        held = sentences % FOLDS == fold
        for sign, design in ((-1, baseline), (1, full)):
            weights, variance = fit(design[~held], y[~held])
            errors = y[held] - design[held] @ weights
            gains[held] -= sign * (math.log(variance) + errors**2 / variance) / 2
    mean = float(gains.mean())
    of_sentences = np.bincount(sentences, gains - mean)
    error = math.sqrt(groups / (groups - 1) * float((of_sentences**2).sum())) / len(y)
    weights, variance = fit(full, y)
    place, spread = baseline.shape[1], variance * len(y) / (len(y) - full.shape[1])
    return {
        **{"measure": name, "words": len(y), "sentences": groups},
        **{"added_log_likelihood": mean, "low": mean - 1.96 * error, "high": mean + 1.96 * error},
        "slope": float(weights[place]),
        "slope_error": math.sqrt(spread * float(np.linalg.pinv(full.T @ full)[place, place])),
        "r2_baseline": 1 - fit(baseline, y)[1] / float(y.var()),
        "r2": 1 - variance / float(y.var()),
    }


def fit(design: FloatArray, y: FloatArray) -> tuple[FloatArray, float]:
    """Least squares: the weights, and the variance of the residuals."""
    weights = np.linalg.lstsq(design, y)[0].astype(np.float64)
    return weights, float(((y - design @ weights) ** 2).mean())


def partial_r2(y: FloatArray, columns: FloatArray, surprisal: FloatArray) -> float:
    """The share of the variance left by the baseline, of columns N x K, that surprisal explains."""
    known = np.isfinite(np.column_stack([y, columns, surprisal])).all(1)
    y, z = y[known], columns[known]
    products = [z[:, j] * z[:, k] for j, k in combinations(range(z.shape[1]), 2)]
    baseline = np.column_stack([np.ones(len(y)), z, *products])
    if len(y) < 2 * baseline.shape[1]:
        raise ToolkitError(
            f"a score of reading times needs {2 * baseline.shape[1]} words with all columns, but "
            f"has {len(y)}. Add rows."
        )
    return 1 - fit(np.column_stack([baseline, surprisal[known]]), y)[1] / fit(baseline, y)[1]


def rate_reading(
    data: ReadingTimes, words: Sequence[Sequence[WordSurprisal]]
) -> tuple[list[JsonObject], list[JsonObject]]:
    """The scores of the BabyLM challenge; and of each row its surprisal, and that of the row before
    in the sentence, in nats. Surprisals are sums over tokens, as in the challenge.
    """
    sums = [[it._replace(surprisal=it.uncorrected) for it in sentence] for sentence in words]
    found, rows = list_predictors(data, sums), set(data.places)
    measured = np.array([(sentence, index - 1) in rows for sentence, index in data.places])
    found[:, 1, 0] = [len(strip_word(words[it][index - 1].word)) for it, index in data.places]
    before = np.where(measured[:, None], found[:, 1, ::2], np.nan)
    places = np.array(data.places, float)[:, 1]
    columns, surprisal = np.column_stack([found[:, 0, :2], places]), found[:, 0, 2]
    more, scores = np.hstack([columns, before]), list[JsonObject]()
    for name, measures, z in (("rt", EYES, columns), ("spr", SELF_PACED, more)):
        shares = [partial_r2(data.measures[it], z, surprisal) for it in measures]
        count = sum(int(np.isfinite(data.measures[it]).sum()) for it in measures)
        scores.append({"name": name, "items": count, "partial_r2": float(np.mean(shares))})
    nats = (np.column_stack([surprisal, before[:, 1]]) * math.log(2)).tolist()
    return scores, [
        {"pred": own, "prev_pred": None if math.isnan(prior) else prior} for own, prior in nats
    ]
