"""BART's noise against loops and its distributions, and the task that removes it."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
import torch
from scipy import stats

from tests.helpers.preprocessing import preprocess_config
from toolkit import load_checkpoint
from toolkit.common.registry import TASKS
from toolkit.config.commands.generate import TranslateConfig
from toolkit.config.load import compose
from toolkit.data.preprocess import preprocess
from toolkit.data.samples.masking import HashNoise
from toolkit.data.storage.data_folder import DataFolder
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.pretraining.denoising import (
    LENGTHS,
    SENTENCES,
    SLOTS,
    DenoisingConfig,
    draw_lengths,
    infill,
)
from toolkit.tasks.text_generation import TextGenerator
from toolkit.training.run import run

MASK = -1


def noise(number, seed=1):
    return HashNoise(seed, 1, np.array([number]))


def make_config(mean, permutes):
    return DenoisingConfig(poisson_lambda=mean, permute_sentences=permutes)


def corrupt_by_loop(tokens, starts, sentences, how, draws):
    """The noise word by word, and the lengths of its spans."""
    words = []
    for token, start, sentence in zip(tokens, starts, sentences, strict=True):
        if start:
            words.append((sentence, []))
        words[-1][1].append(token)
    if how.permute_sentences:
        keys = draws.grid(SENTENCES, max(sentences) + 1)[0]
        words.sort(key=lambda word: keys[word[0]])
    budget, lengths, left = max(1, round(how.mask_rate * len(words))), [], 0
    uniform = draws.grid(LENGTHS, 4096)[0]
    while left < budget:
        length = int(stats.poisson.ppf(uniform[len(lengths)], how.poisson_lambda))
        lengths.append(min(length, budget - left))
        left += lengths[-1]
    full, kept = sum(1 for it in lengths if it), []
    for length in lengths:
        if length or kept.count(0) < budget - full:
            kept.append(length)
    slots = len(words) - budget + len(kept)
    order = np.argsort(draws.grid(SLOTS, slots)[0])[: len(kept)].tolist()
    result = []
    for slot in range(slots):
        if slot in order:
            result.append(MASK)
            del words[: kept[order.index(slot)]]
        else:
            result += words.pop(0)[1]
    return result, kept


def make_text(draw, words):
    sizes = draw.integers(1, 4, words)
    starts = np.concatenate([np.arange(size) == 0 for size in sizes])
    sentence = np.sort(draw.integers(0, 1 + words // 4, words))
    sentence = np.unique(sentence, return_inverse=True)[1]
    return np.arange(len(starts)), starts, np.repeat(sentence, sizes)


@pytest.mark.parametrize("permutes", [False, True])
@pytest.mark.parametrize("mean", [0.7, 3.0])
def test_noise_equals_a_loop_over_words(permutes, mean):
    draw, how = np.random.default_rng(0), make_config(mean, permutes)
    for number in range(60):
        text = make_text(draw, 1 + number)
        expected, _ = corrupt_by_loop(*(part.tolist() for part in text), how, noise(number))
        found = infill(how, *text, noise(number), rate=0.3, mask=MASK).tolist()
        assert found == expected and len(found) <= len(text[0])


def test_span_lengths_follow_the_poisson_distribution_and_cover_the_rate():
    how, counts = make_config(3.0, False), Counter()
    for number in range(300):
        lengths = draw_lengths(noise(number), 300, 3.0)
        assert lengths.sum() == 300
        counts.update(lengths[:-1].tolist())  # the last one is cut
    seen = [counts[n] for n in range(8)] + [sum(counts[n] for n in counts if n > 7)]
    expected = np.append(stats.poisson(3).pmf(np.arange(8)), stats.poisson(3).sf(7)) * sum(seen)
    assert stats.chisquare(seen, expected).pvalue > 1e-3
    text = np.arange(1000), np.ones(1000, bool), np.zeros(1000, np.int64)
    assert len({*infill(how, *text, noise(1), rate=0.3, mask=MASK).tolist()} - {MASK}) == 700


def test_spans_of_length_zero_insert_masks():
    how, draw = make_config(3.0, False), np.random.default_rng(0)
    text = make_text(draw, 400)
    lengths = [draw_lengths(noise(n), 120, 3.0) for n in range(20)]
    masks = [
        int((infill(how, *text, noise(n), rate=0.3, mask=MASK) == MASK).sum()) for n in range(20)
    ]
    assert masks == [len(it) for it in lengths]
    assert sum(int((it == 0).sum()) for it in lengths) > 10


LINES = "one two three four.|five six seven.|eight nine.|ten eleven twelve thirteen fourteen.|"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("denoising")
    (path / "text").write_text(LINES.replace("|", "\n") * 30)
    preprocess(
        preprocess_config(
            trainpref=str(path / "text"),
            validpref=str(path / "text"),
            destdir=str(path / "data"),
            vocab_size=80,
            workers=1,
        )
    )
    return DataFolder.open(path / "data")


def make_examples(folder, seed=1, training=True, schedules=None, **options):
    config = dataclasses.replace(TASKS["denoising"].config, tokens_per_sample=24, **options)
    more = {"schedules": schedules} if schedules else {}
    return TASKS["denoising"].factory.examples(
        config, SplitSource(folder, "train", seed, training, **more)
    )


def test_all_original_tokens_are_targets_and_masked_ones_are_not_read(folder):
    examples, tokens = make_examples(folder), folder.split("train").column("tokens").read_all()
    batch = examples.collate(np.arange(len(examples)), 1)
    eos, mask = folder.vocabulary.sep, folder.vocabulary.mask
    targets = batch.targets.tolist()
    assert [it for it in targets if it != eos] == tokens.tolist()
    assert targets.count(eos) == len(examples) == -(-len(tokens) // 23)
    assert batch.previous[0, 0] == eos and batch.weights == {"denoising": len(targets)}
    assert (batch.inputs.tokens == mask).sum() > len(examples)
    assert batch.inputs.tokens.shape[1] <= 24


def test_items_are_permuted_as_a_whole(folder):
    batch = make_examples(folder, mask_rate=0.01).collate(np.arange(6), 1)  # one word is masked
    first = [folder.tokenizer.encode(line)[:3] for line in LINES.split("|")[:-1]]
    for row, target in zip(batch.inputs.tokens.tolist(), batch.previous.tolist(), strict=True):
        found = [row[i : i + 3] for i in range(24) if row[i : i + 3] in first]
        original = [target[i : i + 3] for i in range(24) if target[i : i + 3] in first]
        assert len(found) >= len(original) - 1
    rows = make_examples(folder, mask_rate=0.01).collate(np.arange(6), 2).inputs.tokens
    assert rows.tolist() != batch.inputs.tokens.tolist()


def test_noise_depends_on_seed_epoch_and_text_only(folder):
    def read(ids, epoch=1, **options):
        batch = make_examples(folder, **options).collate(np.array(ids), epoch)
        padding = batch.inputs.padding
        keep = torch.ones_like(batch.inputs.tokens, dtype=bool) if padding is None else ~padding
        return [row[k].tolist() for row, k in zip(batch.inputs.tokens, keep, strict=True)]

    assert read([3, 5, 4]) == [read([3])[0], read([5])[0], read([4])[0]]
    assert read([3]) == read([3], 1.5) != read([3], 2)
    assert read([3]) != read([3], seed=2)
    assert read([3], training=False) == read([3], 2, training=False)
    assert read([3]) != read([3], mask_rate=0.6)


@pytest.fixture
def small(folder, tmp_path):
    """Makes the configuration of a small run on these texts."""
    shape = {"encoder_layers": 1, "decoder_layers": 1, "width": 32, "heads": 2, "dropout": 0.0}
    return lambda **options: compose({
        "arch": "transformer_tiny", "task": "denoising", "data.dirs": [str(folder.path)],
        "task.tokens_per_sample": 24, "log_interval": 7, "data.batch_size": 16,
        "data.num_workers": 0, "precision": "fp32", "progress": "lines", "max_epoch": 2,
        "save_dir": str(tmp_path / "run"),
        **{f"arch.{name}": value for name, value in shape.items()}, **options,
    })  # fmt: skip


@pytest.mark.slow
def test_model_learns_to_restore_texts_and_generates_them(small, tmp_path):
    run(small(max_epoch=30, lr=3e-3, **{"criterion.label_smoothing": 0.1}))
    learner = load_checkpoint(tmp_path / "run")
    generator = TextGenerator([learner], TranslateConfig(path=[str(tmp_path / "run")]))
    request = generator.encode_line("ten eleven [MASK] fourteen. one two [MASK] four.")
    [output] = generator.generate([request])
    assert "twelve thirteen fourteen. one two three four." in output.best


@pytest.mark.slow
def test_run_resumes_bit_for_bit_within_a_schedule(small, resumes_exactly):
    resumes_exactly(3, {"task.mask_rate": "0.5:0.2"}, small)
