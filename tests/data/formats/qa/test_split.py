from __future__ import annotations

import numpy as np
import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.qa.split import ChoiceSplit, SquadSplit
from toolkit.data.storage.data_folder import DataFolder

from .conftest import NOTHING, RACE, SQUAD, SWAG, TEXT, YEAR, make_squad


def test_questions_are_read_back_with_their_passages(folder):
    split = SquadSplit(folder(SQUAD, SQUAD), "valid")
    assert len(split) == 3 and split.passage_items.tolist() == [0, 0, 0]
    passage = split.read_passage(2)
    assert passage.text == TEXT and passage is split.read_passage(1)
    assert [r["id"] for r in split.records] == ["q1", "q2", "q3"]
    first, last = split.spans[1]
    assert TEXT[passage.begins[first] : passage.ends[last]] == "1905"


def test_squad_split_reads_folders_one_after_the_other(folder):
    one = folder(SQUAD)
    two = folder(make_squad(YEAR), name="two", tokenizer=None, tokenizer_from=str(one.path))
    split = SquadSplit(DataFolder.open(one.path, two.path), "train")
    assert split.passage_items.tolist() == [0, 0, 0, 3] and split.read_passage(3).text == TEXT


def test_none_allowed_follows_the_version_of_the_file(folder):
    assert not SquadSplit(folder(SQUAD), "train").none_allowed
    split = SquadSplit(folder(make_squad(YEAR, NOTHING), name="two"), "train")
    assert split.none_allowed and split.spans[1].tolist() == [-1, -1]


def test_options_are_read_back_by_question(folder):
    split = ChoiceSplit(folder(SWAG, format_name="swag"), "train")
    assert split.option_counts.tolist() == [3, 3] and split.answers.tolist() == [0, 2]
    assert split.option_lengths.tolist() == [2, 3, 2, 2, 2, 2]
    race = ChoiceSplit(folder(RACE, format_name="race", name="two"), "train")
    assert race.passage_items.tolist() == [0, 0, 0]
    option_ids = race.options.take(np.array([1]), np.array([race.options.lengths[1]])).ids
    said = "Tom flies on Sundays . Tom flies on Mondays ."
    assert race.folder.tokenizer.decode(option_ids.tolist()) == said


def test_data_of_another_kind_is_rejected(folder):
    found = folder(SQUAD)
    with pytest.raises(ToolkitError, match=r"task multiple_choice must have a folder of questions"):
        ChoiceSplit(found, "train")
