"""Adaptive masks against loops in float64: what is selected, how weights follow, whole runs."""

from __future__ import annotations

import numpy as np
import torch

from toolkit import build_model
from toolkit.criteria import IGNORED, Classes
from toolkit.data.storage.data_folder import DataFolder
from toolkit.distributed import World
from toolkit.tasks.pretraining.adaptive import AdaptiveMasks
from toolkit.training.run import TrainingRun

AMLM = {"task.masking": "exact", "task.adaptive_interval": 2, "task.mask_rate": 0.3}


def make_learner(data):
    options = {"masking": "exact", "adaptive_interval": 2, "mask_rate": 0.3}
    tokenizer = DataFolder.open(data).tokenizer
    shape = {"width": 16, "heads": 2, "layers": 1}
    return build_model("bert_tiny", tokenizer=tokenizer, task="mlm", task_options=options, **shape)


def test_selection_equals_a_loop_over_sentences(data):
    learner = make_learner(data)
    adaptive, examples = learner.task.adaptive, learner.open_dataset(data).examples
    adaptive.weights.copy_(torch.rand(len(adaptive.weights)) + 0.1)
    ids = np.arange(12)
    batch, draws = examples.collate(ids, 3), examples.noise(ids, 3).grid(0, 200)
    masked = adaptive.select(batch)
    sentences, width = examples._samples.read_batch(ids), batch.inputs.tokens.shape[1]
    weights, expected, visible = adaptive.weights.double(), set(), sentences.tokens.copy()
    for row, tokens in enumerate(sentences.tokens):
        keys = {
            position: np.log(draws[row, position]) / float(weights[tokens[position]])
            for position in np.flatnonzero(sentences.candidates[row])
        }
        for position in sorted(keys, key=keys.get)[::-1][: max(1, round(0.3 * len(keys)))]:
            expected.add((row * width + position, int(tokens[position])))
            visible[row, position] = batch.replaced[row, position]
    real = masked.targets != IGNORED
    assert {
        *zip(masked.selected[real].tolist(), masked.targets[real].tolist(), strict=True)
    } == expected
    assert masked.inputs.tokens.tolist() == visible.tolist()
    assert batch.weights == {"mlm": len(expected)}
    assert (batch.replaced == learner.tokenizer.vocabulary.mask).sum() > 40


def test_tokens_of_a_larger_weight_are_selected_more_often(data):
    learner = make_learner(data)
    adaptive, examples = learner.task.adaptive, learner.open_dataset(data).examples
    the = learner.tokenizer.encode("the cat")[0]

    def share():
        targets = [adaptive.select(examples.collate(np.arange(38), e)).targets for e in range(9)]
        return float((torch.cat(targets) == the).float().mean())

    before = share()
    adaptive.weights[the] = 10.0
    assert share() > 1.5 * before > 0


def test_weights_follow_the_accuracy_of_two_updates():
    masks, expected = AdaptiveMasks(4, interval=2), [1.0] * 4
    targets = [[0, 0, 1, IGNORED], [1, 1, 0, 2]]
    best = [[0, 1, 1, 3], [1, 0, 0, 3]]
    for update in (1, 2):
        for wanted, chosen in zip(targets, best, strict=True):
            logits = torch.nn.functional.one_hot(torch.tensor(chosen), 4).float()
            masks.observe(Classes(logits, torch.tensor(wanted)))
        masks.on_update(update, lambda counts: counts)
        assert masks.seen.tolist() == ([3, 3, 1, 0] if update == 1 else [0] * 4)
    pairs = [*zip(targets[0] + targets[1], best[0] + best[1], strict=True)] * 2
    for token in range(4):
        seen = [chosen == wanted for wanted, chosen in pairs if wanted == token]
        accuracy = (sum(seen) + 0.5) / (len(seen) + 1)
        expected[token] = max(1 / 30, 0.2 * 1.0 + 0.8 * (1 - accuracy))
    expected = np.array(expected) / np.mean(expected)
    np.testing.assert_allclose(masks.weights.double(), expected, rtol=1e-6)


def test_validation_masks_do_not_depend_on_the_weights(data):
    learner = make_learner(data)
    batch = learner.open_dataset(data, "valid", training=False).examples.collate(np.arange(4), None)
    assert batch.targets.numel() and not hasattr(batch, "draws")


def test_only_passes_of_updates_are_counted(config, tmp_path):
    def weights(name, **options):
        options = {**AMLM, "arch": "bert_tiny", "save_dir": str(tmp_path / name), **options}
        training = TrainingRun(config(**options), World())
        training.fit()
        training.close()
        return training.trainer.learner.task.adaptive.weights.tolist()

    measured = weights("measured", log_interval=1, **{"training.memory_probe": "always"})
    assert measured == weights("plain", **{"training.memory_probe": "never"})


def test_two_ranks_equal_one_process(same_on_two_ranks):
    def weights(training):
        return training.trainer.learner.task.adaptive.weights.tolist()

    alone = same_on_two_ranks({**AMLM, "arch": "bert_tiny"}, figures=weights)
    assert np.std(alone[1:]) > 0.01
