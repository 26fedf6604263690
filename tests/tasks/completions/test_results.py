from pathlib import Path

import numpy as np
import pytest

from toolkit.tasks.completions.items import Item, Paradigm
from toolkit.tasks.completions.results import Outcome, make_tables, summarize

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
