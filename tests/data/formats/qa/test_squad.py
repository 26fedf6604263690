"""SQuAD: files and preprocessing."""

from __future__ import annotations

import json
import re

import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import FORMATS
from toolkit.data.formats.qa.format import SquadSplit
from toolkit.data.formats.qa.squad import read_squad

from .conftest import COOK, FOUNDER, SQUAD, TEXT, YEAR, make_question, make_squad


@pytest.fixture
def read(write_files):
    def call(content, evaluated=False, answers_required=True, max_bytes=500000):
        options = {"evaluated": evaluated, "answers_required": answers_required}
        return read_squad(write_files("x.json", content), max_bytes, **options)

    return call


def test_questions_have_their_passage_and_answers(read):
    source = read(SQUAD)
    [passage] = source.passages
    assert passage.text == TEXT and [it.name for it in passage.questions] == ["q1", "q2", "q3"]
    assert [text for text, _ in passage.questions[0].answers] == ["Anna  Bell", "Anna"]
    assert not source.problems and not source.none_allowed


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"id": "q2", "question": "?", "answers": [{"text": "Bell", "answer_start": 3}]},
         r"paragraph 1, question 2, id q2: an answer .* at 3 the context has ' Caf', not 'Bell',"),
        ({"id": "q2", "question": "?", "answers": [{"text": "Rome", "answer_start": 0}]},
         r"which is not in the context"),
        ({"id": "q2", "question": "?", "answers": [{"text": " ", "answer_start": 3}]}, "is blank"),
        ({"id": "q2", "question": "?", "answers": []}, "have an answer, or 'is_impossible' true"),
        ({"id": "q2", "question": "?", "answers": [{"text": "x"}]}, "'text' and 'answer_start'"),
        ({"id": "q2", "question": "?", "answers": {}, "is_impossible": 1}, "must be a list and"),
        ({"id": "q2", "answers": []}, r"question 2: a question must have 'id' and 'question', but"),
        ({**YEAR, "is_impossible": True}, r"'is_impossible' true must not have answers, but has"),
        ({**YEAR, "id": "q1"}, r"id q1: ids must be unique, .* the id of article 1 '"),
    ],
)  # fmt: skip
def test_malformed_questions_are_problems_with_their_location(read, wrong, message):
    source = read(make_squad(FOUNDER, wrong))
    [problem] = source.problems
    assert [it.name for it in source.passages[0].questions] == ["q1"] and not problem.kept
    with pytest.raises(ToolkitError, match=message):
        raise ToolkitError(str(problem))


@pytest.mark.parametrize(("text", "shift"), [("1905", -2), ("1905", 1), (" 1905 \n", 0)])
def test_answers_next_to_their_offset_are_moved_and_counted(read, text, shift):
    start = TEXT.index("1905")
    near = {"id": "q2", "question": "?", "answers": [{"text": text, "answer_start": start + shift}]}
    source = read(make_squad(FOUNDER, near))
    assert source.passages[0].questions[1].answers == (("1905", start),)
    assert not source.problems and source.notes[0].startswith("1 answers moved by one or two")


def test_evaluated_questions_with_wrong_offsets_stay(read):
    wrong = {"id": "q2", "question": "?", "answers": [{"text": "Bell", "answer_start": 3}]}
    source = read(make_squad(FOUNDER, wrong), evaluated=True)
    assert [it.name for it in source.passages[0].questions] == ["q1", "q2"]
    assert source.problems[0].kept and source.passages[0].questions[1].answers[0][1] == -1


def test_blank_context_is_one_problem_for_all_its_questions(read):
    content = make_squad(YEAR, COOK, context=" \n")
    content["data"][0]["paragraphs"].append({"context": TEXT, "qas": [FOUNDER]})
    source = read(content)
    assert "the context must hold text, but is blank, and has 2 questions" in str(
        source.problems[0]
    )
    assert [it.name for p in source.passages for it in p.questions] == ["q1"]
    assert source.problems[0].lost == 2
    kept = read(content, evaluated=True)
    assert len(kept.problems) == 1
    assert [it.name for p in kept.passages for it in p.questions] == ["q2", "q3", "q1"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            json.dumps(SQUAD)[:200],
            r"x.json:1: the file must be JSON to its end: .* ends after 200 characters",
        ),
        (json.dumps(SQUAD, indent=1)[:300], r"to its end: .* at line 1\d .* ends after 300 "),
        ('{"data": [}', r"x.json:1: the file must be JSON .*: .* at column 11"),
        ("", r"ends after 0 characters"),
        ("[" * 100000, r"nested too deeply"),
        ([1], r"x.json:1: the file must be an object with a list 'data', .* but is a list"),
        ({"rows": 1}, r"but is an object with 'rows'"),
        ({"data": [{"title": "x"}]}, r"x.json:article 1: an article must have a list 'paragraphs'"),
        ("\udcff".encode("utf-8", "surrogateescape"), r"expected UTF-8, found byte 0xff"),
    ],
)
def test_files_without_squads_layout_are_rejected(read, content, message):
    with pytest.raises(ToolkitError, match=message):
        read(content)


WRONG = {"id": "q9", "question": "?", "answers": [{"text": "Bell", "answer_start": 3}]}
BARE = {"id": "q9", "question": "Who?", "answers": []}


def test_several_workers_write_the_same_as_one(folder, monkeypatch):
    monkeypatch.setattr("toolkit.data.formats.qa.format.BATCH_PASSAGES", 1)
    content = make_squad(FOUNDER)
    text = "It was founded in 1905 by Jos\u00e9."
    year = make_question(7, "When?", "1905", text=text)
    person = make_question(8, "Who?", "Jos\u00e9", text=text)
    content["data"] += make_squad(year, person, context=text)["data"]
    one, two = folder(content), folder(content, name="two", workers=2)
    for name in ("tokens", "text", "span", "record", "back"):
        files = [(it.path / f"train.{name}.npy").read_bytes() for it in (one, two)]
        assert files[0] == files[1]


def test_malformed_questions_end_the_run_or_are_left_out_and_reported(folder, tmp_path, capsys):
    with pytest.raises(ToolkitError, match=r"id q9: an answer must .* Correct it, or give --on-m"):
        folder(make_squad(FOUNDER, WRONG))
    report = tmp_path / "report.jsonl"
    data = folder(make_squad(FOUNDER, WRONG), on_malformed="skip", json=str(report))
    assert data.split("train").items == 1
    assert "left out" in (output := capsys.readouterr().out) and "id q9: an answer" in output
    events = [json.loads(line) for line in report.read_text().splitlines()]
    [left] = [event for event in events if event["event"] == "left_out"]
    assert left["where"].endswith("id q9") and left["split"] == "train"


def test_test_questions_need_no_answers_but_none_may_be_left_out(folder):
    data = folder(make_squad(FOUNDER), test=make_squad(BARE))
    assert not any(record["known"] for record in SquadSplit(data, "test").records)
    with pytest.raises(ToolkitError, match=r"question 2: a question must have .* Correct it\.$"):
        folder(make_squad(FOUNDER), test=make_squad(BARE, {"id": "x"}), on_malformed="skip")


def test_split_without_questions_is_named_even_if_a_folder_stands_for_it(folder, write_files):
    given = write_files("squad/train-v2.0.json", SQUAD).parent
    write_files("squad/dev-v2.0.json", '{"data": []}')
    with pytest.raises(ToolkitError, match=r"validpref .*squad has nothing to write"):
        folder(None, trainpref=str(given))


def test_answers_that_tokens_do_not_recover_are_listed(folder, tmp_path, capsys):
    folder(SQUAD, json=str(tmp_path / "report.jsonl"))
    assert "2 of 4 (50.00%)" in (output := capsys.readouterr().out)
    assert re.search(r"not recovered exactly: \S+\.json:article 1 .A town., paragraph 1", output)
    assert "question 3, id q3: 'Jos\u00e9' is read as 'Jos\u00e9,', since it ends inside" in output
    events = [json.loads(line) for line in (tmp_path / "report.jsonl").read_text().splitlines()]
    assert [e["wanted"] for e in events if e["event"] == "miss"] == ["Anna  Bell", "Jos\u00e9"]
    assert next(e for e in events if e["event"] == "split")["recovered"] == 2


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.parametrize(
    ("format_name", "given", "counts"),
    [
        ("squad", {"train": "squad/v1.1/train-v1.1.json", "valid": "squad/v1.1/dev-v1.1.json"},
         {"train": (11877, 0, 0, 11877), "valid": (4961, 0, 0, 17778)}),
        ("squad", {"train": "squad/v2.0/train-v2.0.json", "valid": "squad/v2.0/dev-v2.0.json",
                   "test": "squad/v2.0/test-v2.0-noanswers.json"},
         {"train": (5147, 348, 0, 4799), "valid": (3782, 2014, 0, 6585),
          "test": (5915, 0, 5915, 0)}),
        ("race", {"train": "RACE"}, {"train": (9478, 0, 0, 0), "valid": (1752, 0, 0, 0)}),
        ("swag", {"train": "swag_like/codah_as_swag"},
         {"train": (1665, 0, 0, 0), "valid": (556, 0, 0, 0)}),
    ],
)  # fmt: skip
def test_real_files_have_the_published_numbers_of_questions(real_data, format_name, given, counts):
    options = {f"{split}pref": str(real_data / name) for split, name in given.items()}
    config = preprocess_config(format=format_name, **options)
    splits = FORMATS[format_name].factory(config.format.config, config).read()
    for split, [source] in splits.items():
        questions = [it for passage in source.passages for it in passage.questions]
        chosen = [it for passage in source.passages for it in passage.choices]
        unknown = [not it.labeled for it in questions] + [it.answer is None for it in chosen]
        found = (
            sum(it.unanswerable for it in questions),
            sum(unknown),
            sum(len(it.answers) for it in questions),
        )
        assert (len(questions) + len(chosen), *found) == counts[split] and not source.problems


def names(format_name, **given):
    config = preprocess_config(format=format_name, **{k: str(v) for k, v in given.items()})
    files = FORMATS[format_name].factory(config.format.config, config).list_files()
    return {split: [path.name for path in paths] for split, paths in files.items()}


def test_folder_stands_for_the_files_of_all_splits(write_files, tmp_path):
    for name in ("squad/train-v2.0.json", "squad/dev-v2.0.json", "swag/train.csv", "swag/val.csv"):
        write_files(name, "x")
    write_files("swag/val_full.csv", "of other columns")
    found = names("squad", trainpref=tmp_path / "squad")
    assert found == {"train": ["train-v2.0.json"], "valid": ["dev-v2.0.json"]}
    assert names("swag", trainpref=tmp_path / "swag")["valid"] == ["val.csv"]


def test_folder_with_two_versions_is_rejected(write_files, tmp_path):
    for name in ("train-v2.0.json", "dev-v1.1.json.gz", "dev-v1.1.json", "dev-v2.0.json"):
        write_files(f"squad/{name}", "x")
    message = r"validpref folder .*/squad must hold one version .* dev-v1.1.json.* and dev-v2.0"
    with pytest.raises(ToolkitError, match=message):
        names("squad", trainpref=tmp_path / "squad")
    assert names("squad", trainpref=tmp_path / "squad/train-v2.0.json")["train"]


def test_splits_of_race_are_folders(write_files, tmp_path):
    for name in ("train/high/1.txt", "dev/middle/2.txt"):
        write_files(f"RACE/{name}", "x")
    assert names("race", trainpref=tmp_path / "RACE") == {"train": ["train"], "valid": ["dev"]}
    one = names("race", validpref=f"{tmp_path / 'RACE/dev'},{tmp_path / 'RACE/train/high'}")
    assert one == {"valid": ["dev", "high"]}
