from pathlib import Path

import numpy as np
import pytest

from toolkit.commands.completions import to_scores
from toolkit.tasks.completions.items import Item, Paradigm
from toolkit.tasks.completions.results import (
    Outcome,
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
    return summarize(PAIRS, Outcome(won, won == 0.5, won, won * 0 + 0.5), "pairs")


def combined(rows):
    """Accuracy and standard error of several strata from those of each."""
    pairs = np.array([row["pairs"] for row in rows])
    mean = sum(pairs * [row["accuracy"] for row in rows]) / sum(pairs)
    errors = pairs * [row["standard_error"] for row in rows]
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
        found = random.integers(-3, 0, count) + random.choice([0, 4.1e-5, 2.3e-4], count)
        items.append(Item([""] * count, options, PARADIGMS[0], Path("x"), line, answer))
        texts += [EncodedText(np.arange(size + 2), np.arange(size + 2), 2) for size in sizes]
        scores += found.tolist()
        divisors = {"none": [1] * count, "tokens": sizes, "characters": list(map(len, options))}
        divisors = divisors[normalization]
        tolerance = 1e-4 / min(divisors)
        expected.append(judge_by_loop(found / divisors, sizes, answer, tolerance, ties == "first"))
    arrays = np.array(scores), np.zeros(len(scores))
    outcome = judge(items, to_scores(items, *arrays, texts, normalization, "fp32"), ties)
    np.testing.assert_allclose(np.stack(outcome, 1), np.array(expected, float))


def test_a_single_option_is_right_if_all_of_its_tokens_are_the_most_probable():
    items = [Item([""], ["a"], PARADIGMS[0], Path("x"), line) for line in range(2)]
    texts = [EncodedText(np.arange(3), np.arange(3))] * 2
    scores = to_scores(items, np.array([-9.0, -1.0]), np.array([0.0, 1.0]), texts, "none", "fp32")
    correct, *others = judge(items, scores, "half")
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
