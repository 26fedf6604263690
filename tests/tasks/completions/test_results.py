from itertools import product
from pathlib import Path

import numpy as np
import pytest

from toolkit.commands.completions import to_scores
from toolkit.tasks.completions.items import Item, Paradigm
from toolkit.tasks.completions.results import (
    Outcome,
    compare,
    correlate,
    judge,
    make_tables,
    summarize,
)
from toolkit.tasks.completions.scorer import EncodedText

PARADIGMS = [
    Paradigm("verbs", "agreement", "morphology"),
    Paradigm("nouns", "agreement", "morphology"),
    Paradigm("npi", "agreement", "syntax"),
    Paradigm("islands", "islands", "syntax"),
    Paradigm("own"),
]
WON = [[1, 1, 1, 0], [0, 0], [1, 0, 0.5], [1, 1], [0.5]]
PAIRS = [
    Item(["", ""], ["a", "b"], paradigm, Path("x"), line)
    for paradigm, won in zip(PARADIGMS, WON, strict=True)
    for line in range(len(won))
]
RECORD = {
    "task": "minimal_pairs",
    "path": "run",
    "scoring": "log_likelihood",
    "normalization": "none",
}


@pytest.fixture
def summary():
    won = np.concatenate(WON)
    return summarize(PAIRS, Outcome(won, won == 0.5, won, won * 0 + 0.5, won * np.nan), "pairs")


def combined(rows):
    """Accuracy and standard error of several strata from those of each."""
    pairs = np.array([row["pairs"] for row in rows])
    mean = sum(pairs * [row["accuracy"] for row in rows]) / sum(pairs)
    errors = pairs * [row["standard_error"] or 0.0 for row in rows]
    return pytest.approx((mean, np.sqrt(sum(errors**2)) / sum(pairs)))


def test_groups_are_stratified_samples_of_their_paradigms(summary):
    rows = summary["paradigms"]
    groups = {"overall": (summary["overall"], rows)}
    groups |= {it["name"]: (it, []) for it in (*summary["fields"], *summary["phenomena"])}
    for name, key in (("morphology", "field"), ("syntax", "field"), ("agreement", "phenomenon")):
        groups[name] = (groups[name][0], [row for row in rows if row[key] == name])
    groups.pop("islands")
    for group, members in groups.values():
        assert (group["accuracy"], group["standard_error"]) == combined(members)
        assert group["paradigms"] == len(members)
        assert group["ties"] == sum(row["ties"] for row in members)


def test_phenomena_have_the_field_of_most_paradigms_and_unknown_ones_are_left_out(summary):
    fields = {row["name"]: row["field"] for row in summary["phenomena"]}
    assert fields == {"agreement": "morphology", "islands": "syntax"}
    assert [row["name"] for row in summary["fields"]] == ["morphology", "syntax"]


def test_tables_list_phenomena_by_field_and_few_paradigms(summary):
    record = {**RECORD, **summary}
    paradigms, phenomena = make_tables(record, paradigms=False)
    assert [row[0] for row in phenomena.rows] == ["agreement", "islands", "overall"]
    assert len(paradigms.rows) == len(PARADIGMS)
    many = {**record, "paradigms": summary["paradigms"] * 3}
    assert len(make_tables(many, paradigms=False)) == 1
    assert len(make_tables(many, paradigms=True)) == 2


def judge_by_loop(scores, sizes, answer, tolerance, first):
    """What the right option gets, whether it is tied, and what the shortest option gets."""
    winners = [i for i, score in enumerate(scores) if score >= max(scores) - tolerance]
    shortest = [i for i, size in enumerate(sizes) if size == min(sizes)]
    correct = float(answer == winners[0]) if first else (answer in winners) / len(winners)
    tied = answer in winners and len(winners) > 1
    return correct, tied, (answer in shortest) / len(shortest), 1 / len(scores)


@pytest.mark.parametrize("normalization", ["none", "tokens", "characters"])
@pytest.mark.parametrize("ties", ["half", "first"])
def test_outcomes_equal_a_loop_over_items_and_options(normalization, ties):
    random, items, texts, scores, expected = np.random.default_rng(0), [], [], [], []
    for line in range(200):
        count = int(random.integers(2, 6))
        sizes, answer = random.integers(1, 4, count).tolist(), int(random.integers(count))
        options = ["abc"[: random.integers(1, 4)] for _ in range(count)]
        found = random.integers(-3, 0, count) + random.choice([0, 1e-9, 4.1e-5, 2.3e-4], count)
        items.append(Item([""] * count, options, PARADIGMS[0], Path("x"), line, answer))
        texts += [EncodedText(np.arange(size + 2), np.arange(size + 2), 2) for size in sizes]
        scores += found.tolist()
        divisors = {"none": [1] * count, "tokens": sizes, "characters": list(map(len, options))}
        divisors = divisors[normalization]
        found, tolerance = found / divisors, 1e-4 / min(divisors)
        if ties == "first":
            found, tolerance = np.float32(found), 0
        expected.append(judge_by_loop(found, sizes, answer, tolerance, ties == "first"))
    arrays = np.array(scores), np.zeros(len(scores))
    outcome = judge(items, to_scores(items, *arrays, texts, normalization, "fp32", ties), ties)
    np.testing.assert_allclose(np.stack(outcome[:4], 1), np.array(expected, float))


def test_a_single_option_is_right_if_all_of_its_tokens_are_the_most_probable():
    items = [Item([""], ["a"], PARADIGMS[0], Path("x"), line) for line in range(2)]
    texts = [EncodedText(np.arange(3), np.arange(3))] * 2
    numbers = np.array([[-9.0, -1.0], [0.0, 1.0]])
    scores = to_scores(items, *numbers, texts, "none", "fp32", "half")
    correct, *others = judge(items, scores, "half", lambda word: 5.0)
    assert correct.tolist() == [1, 0] and not np.any(others)


def test_ratings_are_correlated_with_the_share_of_the_first_option():
    ratings, shares = [0.1, 0.2, 0.4, 0.9], [0.2, 0.6, 0.5, 0.7]  # two neighbors change places
    items = [
        Item(["", ""], ["a", "b"], PARADIGMS[0], Path("x"), line, rating=rating)
        for line, rating in enumerate(ratings)
    ]
    scores = np.log([[share, 1 - share] for share in shares])
    scores += np.array([[0.0], [-5.0], [-1.0], [-9.0]])  # how probable both are does not count
    (row,) = correlate(items, scores)
    assert (row["name"], row["items"], row["spearman"]) == ("verbs", 4, pytest.approx(0.8))


def test_option_with_the_most_frequent_words_is_chosen_by_the_sum_of_their_logarithms():
    zipf = {"the": 7.0, "cat": 5.0, "sat": 5.0, "rat": 4.0}.__getitem__
    options = [["the cat", "the rat"], ["cat sat", "sat cat"], ["the rat", "cat"]]
    items = [Item(["", ""], it, PARADIGMS[0], Path("x"), line) for line, it in enumerate(options)]
    texts = [EncodedText(np.arange(2), np.arange(2))] * 6
    scores = to_scores(items, np.zeros(6), np.zeros(6), texts, "none", "fp32", "first")
    outcome = judge(items, scores, "first", zipf)
    assert outcome.frequency.tolist() == [1, 0.5, 0], "log10 p are -6, -7; -8, -8; -7, -4"
    assert summarize(items, outcome, "pairs")["overall"]["frequency_only"] == 0.5
    without = summarize(items, judge(items, scores, "first"), "pairs")
    assert "frequency_only" not in without["overall"]


def test_error_of_a_difference_is_that_of_bootstrap_samples_of_paired_items():
    random = np.random.default_rng(0)
    items = [
        Item(["", ""], ["a", "b"], paradigm, Path("x"), line)
        for paradigm in PARADIGMS[2:4]
        for line in range(60)
    ]
    before = (random.random(120) < np.repeat([0.4, 0.9], 60)).astype(float)
    after = np.where(random.random(120) < 0.7, before, 1.0)  # they err on the same items
    empty = before * 0
    outcomes = [[Outcome(it, empty > 0, empty, empty, empty)] for it in (after, before)]
    overall = compare(items, *outcomes, "pairs")[-1]
    places = np.stack([random.integers(0, 60, (4000, 60)) + 60 * it for it in (0, 1)], 1)
    samples = (after - before)[places].mean((1, 2))
    assert overall["difference"] == pytest.approx((after - before).mean())
    assert overall["standard_error"] == pytest.approx(samples.std(), rel=0.05)
    assert overall["standard_error"] < 0.7 * np.hypot(after.std(), before.std()) / np.sqrt(120)


def test_error_of_a_difference_over_seeds_is_that_of_all_bootstrap_samples_of_seeds_and_items():
    """Two of three seeds of one model, one of two of the other, and the items of each paradigm."""
    random, sizes = np.random.default_rng(1), (3, 2)
    items = [
        Item(["", ""], ["a", "b"], paradigm, Path("x"), line)
        for paradigm, size in zip(PARADIGMS[2:4], sizes, strict=True)
        for line in range(size)
    ]
    a, b = random.random((3, 5)), random.random((2, 5))
    no = np.zeros(5)
    models = [[Outcome(it, no > 0, no, no, no) for it in seeds] for seeds in (a, b)]
    overall = compare(items, *models, "pairs")[-1]
    samples = []
    for first, second in product(product(range(3), repeat=3), product((3, 4), repeat=2)):
        kept = [*first, *second]
        for drawn, other in product(product(range(3), repeat=2), range(2)):
            samples.append(a[drawn, :][:, kept].mean() - b[other, kept].mean())
    assert overall["difference"] == pytest.approx(a.mean() - b.mean())
    assert overall["standard_error"] == pytest.approx(np.std(samples), rel=1e-9)
    samples = [
        a[drawn, :][:, [*first, *second]].mean()
        for first, second in product(product(range(3), repeat=3), product((3, 4), repeat=2))
        for drawn in product(range(3), repeat=2)
    ]
    one = compare(items, models[0], [], "pairs")[-1]
    found = one["accuracy"], one["standard_error"]
    assert found == pytest.approx((a.mean(), np.std(samples)), rel=1e-9)
    alone = compare(items, models[0][:1], models[1][:1], "pairs")[-1]
    assert alone["standard_error"] < overall["standard_error"]
