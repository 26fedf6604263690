"""toolkit-validate --task reading_times: rows, predictors, and regressions by normal equations."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from itertools import product

import numpy as np
import pytest

from toolkit.cli.validate import main
from toolkit.config.commands.generate import SurprisalOptions
from toolkit.tasks.completions.reading_times import EYES, SELF_PACED, fit
from toolkit.tasks.completions.surprisal import SurprisalReader

SENTENCES = [
    f"{a} {noun} saw how {b} dogs ran."
    for a, noun, b in product(("the", "a"), ("cat", "rat", "mat,"), ("the", "seven"))
]
HEADER = "sentence,word,context_length,log_frequency,time,self_paced_reading_time\n"


def normal_equations(x, y):
    """The b that solves x'x b = x'y, by elimination, and the mean of the squared errors."""
    size = len(x[0])
    rows = [
        [sum(r[i] * r[j] for r in x) for j in range(size)]
        + [sum(r[i] * v for r, v in zip(x, y, strict=True))]
        for i in range(size)
    ]
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [it / rows[i][i] for it in rows[i]]
        for other in range(size):
            if other != i:
                rows[other] = [
                    a - rows[other][i] * b for a, b in zip(rows[other], rows[i], strict=True)
                ]
    b = [row[-1] for row in rows]
    errors = [v - sum(p * q for p, q in zip(b, r, strict=True)) for r, v in zip(x, y, strict=True)]
    return b, sum(e * e for e in errors) / len(errors)


def log_density(x, y, b, variance):
    error = y - sum(p * q for p, q in zip(b, x, strict=True))
    return -(math.log(2 * math.pi * variance) + error**2 / variance) / 2


@pytest.fixture
def table(tmp_path):
    """Rows of all words, with random times; frequencies belong to the word, as in a lexicon."""
    rng = np.random.default_rng(0)
    words = sorted({w.strip(",.") for it in SENTENCES for w in it.split()})
    of_word = dict(zip(words, rng.normal(5, 2, len(words)), strict=True))
    rows = []
    for sentence in SENTENCES:
        for i, word in enumerate(sentence.split()):
            frequency, noise = of_word[word.strip(",.")], rng.normal(size=2)
            time = "" if rng.random() < 0.1 else 300 - 9 * frequency + 5 * noise[0]
            rows.append(f'"{sentence}","{word}",{i},{frequency},{time},{noise[1]}\n')
    (tmp_path / "times.csv").write_text(HEADER + "".join(rows))
    return tmp_path / "times.csv", of_word, [row.rsplit(",", 3)[-2] for row in rows]


def test_added_log_likelihood_equals_a_loop_over_sentences_left_out(
    make_learner, table, tmp_path, capsys
):
    learner = make_learner("transformer_lm_tiny", "language_modeling")
    learner.save(tmp_path / "run")
    file, of_word, times = table
    words = [file, "--task", "reading_times", "--path", tmp_path / "run", "--measures", "time"]
    assert main([*map(str, words), "--results-path", str(tmp_path / "out")]) == 0
    record = json.loads((tmp_path / "out").read_text())
    reader = SurprisalReader(learner, SurprisalOptions(), max_tokens=100)
    rows, place = [], iter(times)
    for number, measured in enumerate(reader.measure(SENTENCES)):
        for i, _ in enumerate(measured):
            if (time := next(place)) and i >= 2:
                back = measured[i], measured[i - 1], measured[i - 2]
                known = [v for w in back for v in (len(w.word), of_word[w.word.strip(",.")])]
                rows.append((number, [1.0, *known], [w.surprisal for w in back], float(time)))
    gains = []
    for number, known, bits, time in rows:
        others = [row for row in rows if row[0] % 10 != number % 10]
        y = [row[3] for row in others]
        base = normal_equations([row[1] for row in others], y)
        full = normal_equations([row[1] + row[2] for row in others], y)
        gain = log_density(known + bits, time, *full) - log_density(known, time, *base)
        gains.append((number, gain))
    mean = sum(gain for _, gain in gains) / len(gains)
    sums = [sum(gain - mean for n, gain in gains if n == k) for k in range(len(SENTENCES))]
    error = math.sqrt(12 / 11 * sum(it * it for it in sums)) / len(gains)
    [found] = record["measures"]
    assert (found["measure"], found["words"], found["sentences"]) == ("time", len(rows), 12)
    assert found["added_log_likelihood"] == pytest.approx(mean, abs=1e-6) and abs(mean) > 1e-3
    assert found["high"] - found["low"] == pytest.approx(2 * 1.96 * error, rel=1e-5)
    b, variance = normal_equations([row[1] + row[2] for row in rows], [row[3] for row in rows])
    assert found["slope"] == pytest.approx(b[7], rel=1e-5)
    assert found["r2"] == pytest.approx(1 - variance / np.var([row[3] for row in rows]), rel=1e-6)
    assert "time" in capsys.readouterr().out


def test_scores_of_the_challenge_equal_loops_over_products_of_columns(
    make_learner, tmp_path, capsys
):
    learner, rng = make_learner("bert_tiny", "mlm", layers=1), np.random.default_rng(3)
    learner.save(tmp_path / "run")
    measures, rows, lines = [*EYES, *SELF_PACED], [], []
    lexicon = defaultdict(rng.normal)
    reader = SurprisalReader(learner, SurprisalOptions(scoring="left_to_right"), max_tokens=100)
    choice = ["the", "a", "cat", "rat", "mat,", "saw", "how", "seven", "dogs", "ran."]
    sentences = [" ".join(rng.choice(choice, 8)) for _ in range(12)]
    for sentence, words in zip(sentences, reader.measure(sentences), strict=True):
        nats = [word.surprisal * math.log(2) for word in words]
        for i, word in enumerate(words[1:], 1):
            times = rng.normal(300, 9, len(measures)).tolist()
            columns = [lexicon[word.word.strip(",.")], len(word.word), i]
            before = [len(words[i - 1].word.strip(",.")), nats[i - 1]] if i > 1 else None
            rows.append((columns, before, nats[i], times))
            cells = [f'"{sentence}"', f'"{word.word}"', i, columns[0], *times]
            lines.append(",".join(map(str, cells)) + "\n")
    header = ",".join(["sentence", "word", "context_length", "Subtlex_log10", *measures])
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "times.csv").write_text(header + "\n" + "".join(lines))
    suite = "reading: {files: [times.csv], task: reading_times, scoring: left_to_right}"
    (tmp_path / "own.yaml").write_text(suite)
    asked = [tmp_path / "data", "--suite", tmp_path / "own.yaml", "--path", tmp_path / "run"]
    asked += ["--predictions", tmp_path / "out", "--results-path", tmp_path / "results"]
    assert main([*map(str, asked)]) == 0
    record = json.loads((tmp_path / "results").read_text())

    def share(measure, used):
        base, y = [], [times[measure] for *_, times in used]
        for columns, before, *_ in used:
            z = columns + (before or [])
            base.append([1.0, *z, *(a * b for k, a in enumerate(z) for b in z[:k])])
        full = [[*row, it[2]] for row, it in zip(base, used, strict=True)]
        return 1 - normal_equations(full, y)[1] / normal_equations(base, y)[1]

    alone = [(columns, None, *rest) for columns, _, *rest in rows]
    expected = [sum(share(k, alone) for k in range(4)) / 4, share(4, [it for it in rows if it[1]])]
    assert [it["partial_r2"] for it in record["correlations"]] == pytest.approx(expected, rel=1e-5)
    assert record["score"] == pytest.approx(sum(expected) / 2, rel=1e-5)
    answers = [json.loads(line) for line in (tmp_path / "out" / "reading.jsonl").open()]
    prior = [before and before[1] for _, before, *_ in rows]
    for answer, (*_, own, _), before in zip(answers, rows, prior, strict=True):
        assert (answer["pred"], answer["prev_pred"]) == (
            pytest.approx(own, abs=1e-5),
            before and pytest.approx(before, abs=1e-5),
        )
    assert "spr" in capsys.readouterr().out


def test_weights_of_least_squares_recover_a_planted_relation():
    x = np.random.default_rng(1).normal(size=(50, 3))
    weights, variance = fit(x, x @ [1.0, -2.0, 3.0])
    assert weights == pytest.approx([1, -2, 3]) and variance < 1e-20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("mat,", "hat"),
            r"times.csv:\d+: word 1 of the sentence, counted from 0 by",
        ),
        (("log_frequency", "other"), r"time has 0 words in 0 sentences with all predictors"),
        (("context_length", "index"), r"times.csv:2: the row has no field 'context_length'"),
        (('cat",1', 'cat",1.5'), r"times.csv:\d+: word 1.5 of the sentence"),
    ],
)
def test_tables_that_do_not_match_their_sentences_end_in_one_line(
    make_learner, table, tmp_path, capsys, change, message
):
    make_learner("transformer_lm_tiny", "language_modeling").save(tmp_path / "run")
    file, text = table[0], table[0].read_text()
    old = f'"{change[0]}"' if change[1] == "hat" else change[0]
    file.write_text(text.replace(old, old.replace(*change), 1))
    words = [file, "--task", "reading_times", "--path", tmp_path / "run", "--measures", "time"]
    assert main([*map(str, words)]) == 2
    error = capsys.readouterr().err
    assert re.search(message, error) and error.count("\n") <= 2
