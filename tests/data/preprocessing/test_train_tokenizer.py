from functools import partial

import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.data.preprocessing.choose_tokenizer import (
    TrainingText,
    count_words,
    sample_items,
    sample_text,
)
from toolkit.data.preprocessing.workers import WorkerPool
from toolkit.data.text_files import FileChunk

LIMIT = 500_000


def text_of(*paths):
    """The files as parts of a training text."""
    parts = [[FileChunk(path, 0, path.stat().st_size, True)] for path in paths]
    return TrainingText(parts, "lines", LIMIT)


@pytest.fixture
def numbers(text_file):
    return text_of(text_file("".join(f"The {n}\n" for n in range(100))))


@pytest.fixture
def rivers(text_file):
    return text_of(*(text_file("the river\n" * n, f"{n}.txt") for n in (1, 9, 4)))


def test_a_fraction_of_the_items_is_spread_evenly(numbers):
    sample = partial(sample_items, text=numbers, fraction=0.1, lower=False)
    assert sample(numbers.parts[0]) == [f"The {n}" for n in range(9, 100, 10)]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_sample_without_bound_is_the_whole_text(workers, rivers):
    config = preprocess_config(trainpref="x", sentencepiece_megabytes=0.0)
    with WorkerPool(workers) as pool:
        assert sample_text(rivers, config, pool) == ["the river"] * 14


@pytest.mark.parametrize("workers", [1, 2])
def test_a_sample_has_items_even_if_every_part_is_too_short_for_one(workers, rivers):
    config = preprocess_config(trainpref="x", sentencepiece_megabytes=1e-6)  # a byte of 140
    with WorkerPool(workers) as pool:
        assert 0 < len(sample_text(rivers, config, pool)) < 4


@pytest.mark.parametrize(("kind", "first"), [("sentencepiece", "the 0"), ("wordpiece", "The 0")])
def test_items_are_lowercased_unless_the_training_does_so(numbers, kind, first):
    config = preprocess_config(trainpref="x", lowercase=True, tokenizer=kind)
    with WorkerPool(1) as pool:
        assert sample_text(numbers, config, pool)[0] == first


def test_long_word_is_split_and_each_part_appears_once(text_file):
    text = text_of(text_file("a " + "x" * 1000 + " b\n" + "yz" * 200 + "\n"))
    found = sample_items(text.parts[0], text, 1.0, lower=False)
    assert found == [f"a {'x' * 256} {'x' * (1000 - 3 * 256)} b", f"{'yz' * 128} {'yz' * 72}"]


def test_words_are_counted_as_a_word_level_vocabulary_sees_them(numbers):
    twice = numbers._replace(parts=[*numbers.parts, *numbers.parts])
    with WorkerPool(1) as pool:
        counts = count_words(twice, pool, lowercase=True)
    assert (counts["the"], counts["7"], counts["The"], len(counts)) == (200, 2, 0, 101)
