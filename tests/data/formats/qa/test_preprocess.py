from __future__ import annotations

import json
import re

import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import FORMATS
from toolkit.data.formats.qa.split import SquadSplit

from .conftest import FOUNDER, SQUAD, make_question, make_squad

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
