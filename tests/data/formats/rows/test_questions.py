"""Questions in rows: the columns of the same questions in SWAG's and SQuAD's own files."""

import csv
import json

import pytest

from tests.data.formats.qa.conftest import COOK, FOUNDER, NOTHING, SWAG, TEXT, make_squad
from tests.data.formats.rows.test_rows import KINDS, TYPED, columns, make, write_json_lines
from toolkit.common.errors import ToolkitError

STORIES = list(csv.DictReader(SWAG.splitlines()))
ENDINGS = [[row[f"ending{number}"] for number in range(3)] for row in STORIES]
NESTED = [
    {"question": row["sent1"], "start": row["sent2"], "choices": {"text": texts, "label": [*"XYZ"]}}
    for row, texts in zip(STORIES, ENDINGS, strict=True)
]
UNANSWERED = make_squad(FOUNDER, COOK, NOTHING, version="2.0")


def compare(tmp_path, path, own, like, **given):
    """Training and validation data of rows must be that of the format's own file."""
    file = tmp_path / {"swag": "own.csv", "squad": "own.json"}[like]
    file.write_text(own, "utf-8")
    splits = ("trainpref", "validpref")
    expected = make(
        tmp_path,
        "expected",
        overwrite=True,
        format=like,
        **dict.fromkeys(splits, str(file)),
    )
    found = make(tmp_path, "found", overwrite=True, **dict.fromkeys(splits, str(path)), **given)
    assert columns(found) == columns(expected)
    return [json.loads((it / "meta.json").read_text())["splits"] for it in (found, expected)]


@pytest.mark.parametrize("kind", KINDS)
def test_options_equal_those_of_swag(tmp_path, kind):
    """In columns of their own, or nested as in CommonsenseQA."""
    rows, given = STORIES, {"label_type": "option"}
    if kind in TYPED:
        rows = [row | {"answerKey": key} for row, key in zip(NESTED, "XZ", strict=True)]
        given["text_columns"] = "question,choices"
    KINDS[kind](tmp_path / kind, rows)
    compare(tmp_path, tmp_path / kind, SWAG, "swag", **given)


def test_correct_options_are_numbers_letters_or_texts(tmp_path):
    read = [[0, 2], ["0", "2"], ["A", "C"], [ENDINGS[0][0], ENDINGS[1][2]]]
    for answers in read:
        named = zip(STORIES, ENDINGS, answers, strict=True)
        rows = [{"context": it["sent1"], "start": it["sent2"], "options": texts, "answer": answer}
                for it, texts, answer in named]  # fmt: skip
        write_json_lines(tmp_path / "a.jsonl", rows)
        compare(tmp_path, tmp_path / "a.jsonl", SWAG, "swag", label_type="option")


@pytest.mark.parametrize("kind", KINDS)
def test_answers_equal_those_of_squad(tmp_path, kind):
    """Nested as Hugging Face stores them; tables have one answer, flat."""
    own, asked, rows = UNANSWERED, [FOUNDER, COOK, NOTHING], []
    if kind in ("a.csv", "a.tsv"):
        own = make_squad(FOUNDER | {"answers": FOUNDER["answers"][:1]}, COOK, NOTHING, version="2")
        own["data"][0]["paragraphs"][0]["context"] = flat = TEXT.replace("\n", " ")
    for it in asked:
        row = {"id": it["id"], "question": it["question"]}
        texts, starts = (
            [answer[name] for answer in it["answers"]] for name in ("text", "answer_start")
        )
        if kind in ("a.csv", "a.tsv"):
            row |= {"passage": flat, "answer_text": (texts or [""])[0]}
            rows.append(row | {"answer_start": (starts or [""])[0]})
        else:
            rows.append(row | {"passage": TEXT, "answers": {"text": texts, "answer_start": starts}})
    KINDS[kind](tmp_path / kind, rows)
    given = {"label_type": "answer", "text_columns": "question,passage"}
    found, expected = compare(tmp_path, tmp_path / kind, json.dumps(own), "squad", **given)
    for split, counts in expected.items():
        assert found[split]["none_allowed"] == 1
        assert [found[split][name] for name in ("passages", "none", "answers", "recovered")] == [
            counts[name] for name in ("passages", "none", "answers", "recovered")
        ]


def test_a_test_file_without_any_answer_has_unknown_ones(tmp_path):
    rows = [{"question": "Who?", "context": TEXT, "answers": {"text": [], "answer_start": []}}] * 2
    write_json_lines(tmp_path / "a.jsonl", rows)
    inputs = dict.fromkeys(("trainpref", "testpref"), str(tmp_path / "a.jsonl"))
    found = make(tmp_path, "data", label_type="answer", **inputs)
    splits = json.loads((found / "meta.json").read_text())["splits"]
    assert [splits["test"][name] for name in ("unlabeled", "none", "passages")] == [2, 0, 1]
    assert splits["train"]["none"] == 2


OPTION, ANSWER = {"label_type": "option"}, {"label_type": "answer"}
LISTS = {"text": ["was"], "answer_start": [0]}
BAD = [
    ({"context": "", "options": ["a", "b"], "label": 2}, OPTION, "must be one of 0, 1, or the let"),
    ({"context": "", "options": ["a", "b"], "label": "AB"}, OPTION, "option, but is 'AB'"),
    ({"context": "", "options": ["a", "b"], "label": None}, OPTION, "but is 'None'"),
    ({"context": "", "options": ["a"], "label": 0}, OPTION, "must have two options or more, none"),
    ({"context": "", "options": ["a", "b"]}, OPTION, "the row has no field 'label'. Its fields"),
    ({"context": "", "label": 0}, OPTION, "reads 'context' and 'options', but 'options' is"),
    ({"question": "?", "context": TEXT, "answers": LISTS}, ANSWER, "at 0 the context has 'The'"),
    ({"question": "?", "context": TEXT, "answer_text": "was"}, ANSWER, "must have 'text' and "),
    ({"question": "?", "context": TEXT}, ANSWER, "the row has no field 'answers'. Its fields are"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "given", "message"), BAD)
def test_malformed_questions_are_named(tmp_path, row, given, message):
    write_json_lines(tmp_path / "a.jsonl", [row])
    with pytest.raises(ToolkitError, match=r"a\.jsonl:1[:,]") as error:
        make(tmp_path, "data", trainpref=str(tmp_path / "a.jsonl"), **given)
    assert message in str(error.value)
