from __future__ import annotations

from toolkit.data.formats.qa.report import of_choices, of_squad


def test_the_share_of_answers_that_are_found_is_told():
    assert of_squad({"answers": 400, "recovered": 399, "none": 7}) == ["7", "399 of 400 (99.75%)"]
    assert of_squad({"answers": 0, "recovered": 0, "none": 0}) == ["0", "none"]


def test_options_and_known_answers_are_counted():
    assert of_choices({"options": 4000, "questions": 1000, "unlabeled": 1}) == ["4,000", "999"]


def test_of_many_things_some_are_shown(folder, capsys):
    from .conftest import SQUAD, asked, squad

    many = [asked(f"x{number}", "Who?", "Anna") for number in range(9)]
    for question in many:
        question["answers"][0]["answer_start"] = 0
    folder(squad(*many, *SQUAD["data"][0]["paragraphs"][0]["qas"]), on_malformed="skip")
    shown = capsys.readouterr().out
    assert shown.count("left out ") == 5 + 1 and "and 4 more of train left out" in shown
