"""Pairs of several files, by paradigm."""

import json

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.tasks.completions.items import read_sets


def write_table(file, *rows):
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join("\t".join(row) + "\n" for row in rows))
    return str(file)


def write_objects(file, *rows):
    pair = {"sentence_good": "dogs run", "sentence_bad": "dogs runs"}
    file.write_text("".join(json.dumps(pair | row) + "\n" for row in rows))
    return str(file)


def paradigms(names, limit=None):
    return [pair.paradigm.name for pair in read_sets(names, limit)[0]]


def test_each_file_is_a_paradigm_also_with_the_name_of_another(tmp_path):
    one = write_table(tmp_path / "a" / "agreement.tsv", ("x y", "x z"), ("u v", "u w"))
    other = write_table(tmp_path / "b" / "agreement.tsv", ("k l", "k m"))
    third = write_table(tmp_path / "b" / "islands.tsv", ("k l", "k m"))
    assert paradigms([one, other, third]) == [one, one, other, "islands"]
    assert paradigms([one, other], limit=1) == [one, other]


def test_pairs_of_a_uid_may_be_in_several_files(tmp_path):
    files = [write_objects(tmp_path / name, {"UID": "u"}) for name in ("a.jsonl", "b.jsonl")]
    assert paradigms(files) == ["u", "u"]
    assert paradigms(files, limit=1) == ["u"]


@pytest.mark.parametrize("uid", [{}, {"UID": "a"}])
def test_a_paradigm_with_two_phenomena_is_an_error(tmp_path, uid):
    rows = [uid | {"linguistics_term": term} for term in ("islands", "islands", "binding")]
    file = write_objects(tmp_path / "a.jsonl", *rows)
    message = f"{file}:3: paradigm a must have one linguistics_term and field, as in {file}:1, but"
    with pytest.raises(ToolkitError, match=message):
        read_sets([file])


@pytest.mark.parametrize(
    "header", ["sentence_good\tsentence_bad", "\n Sentence_Good\tsentence_bad "]
)
def test_a_header_is_no_pair(tmp_path, header):
    (tmp_path / "a.tsv").write_text(f"{header}\ndogs run\tdogs runs\n")
    assert [pair.options[0] for pair in read_sets([str(tmp_path / "a.tsv")])[0]] == ["dogs run"]


@pytest.mark.parametrize(
    ("fields", "paradigm"),
    [
        ({"UID": "u", "linguistics_term": "t", "field": "a/b"}, ("u", "t", "a_b")),  # BLiMP
        ({"linguistic_phenomenon": "t", "paradigm": "u"}, ("u", "t", "")),  # BLiMP-NL
        ({"phenomenon": "t", "paradigm": "u"}, ("u", "t", "")),
        ({"group": "t", "subgroup": "u"}, ("u", "t", "")),
        ({}, ("a", "", "")),
    ],
)
def test_paradigms_are_named_by_fields_of_published_sets_and_tables(tmp_path, fields, paradigm):
    ((pair,), _) = read_sets([write_objects(tmp_path / "a.jsonl", fields)])
    assert pair.paradigm == paradigm


def test_in_turns_of_clams_the_sentence_after_true_is_right(tmp_path):
    (tmp_path / "a.txt").write_text("False\tdogs runs\nTrue\tdogs run\nTrue\tI am\nFalse\tI is\n")
    items, _ = read_sets([str(tmp_path / "a.txt")])
    assert [item.options for item in items] == [["dogs run", "dogs runs"], ["I am", "I is"]]
