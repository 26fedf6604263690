from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, random_split

from tests.helpers.preprocessing import preprocess_config
from toolkit import ToolkitError, build_model
from toolkit.criteria import IGNORED
from toolkit.data.formats.classification.split import Labels
from toolkit.data.preprocess import preprocess
from toolkit.data.tokenizers.tokenizer import Tokenizer

TEXTS = ["a lovely film", "a dull film", "lovely music", "dull music"] * 4
LABELS = ["good", "bad", "good", "bad"] * 4


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(TEXTS, kind="words")


@pytest.fixture
def classifier(tokenizer):
    torch.manual_seed(0)
    return build_model(
        "bert_tiny", tokenizer=tokenizer, task="glue", labels=["bad", "good"], layers=1, dropout=0.0
    ).eval()


def pretrained(tokenizer, task="mlm", arch="bert_tiny", **options):
    torch.manual_seed(0)
    return build_model(arch, tokenizer=tokenizer, task=task, layers=1, task_options=options)


def test_data_loader_visits_every_example_once(classifier):
    dataset = classifier.dataset(TEXTS, LABELS)
    loader = DataLoader(dataset, batch_size=5, shuffle=True, collate_fn=dataset.collate)
    batches = list(loader)
    assert [batch.sentences for batch in batches] == [5, 5, 5, 1]
    assert sorted(torch.cat([batch.ids for batch in batches]).tolist()) == list(range(16))
    first, second = random_split(dataset, [10, 6])
    parts = [DataLoader(part, batch_size=4, collate_fn=dataset.collate) for part in (first, second)]
    assert sum(batch.sentences for part in parts for batch in part) == 16


def test_items_are_batches_of_one_example(classifier):
    dataset = classifier.dataset(TEXTS, LABELS, training=False)
    assert len(dataset) == 16 and len(list(dataset)) == 16
    assert torch.equal(dataset[-1].inputs.tokens, dataset[15].inputs.tokens)
    assert dataset[1].targets.tolist() == [0] and dataset[0].targets.tolist() == [1]


def test_masks_follow_torchs_generator_in_training_and_are_fixed_otherwise(tokenizer):
    learner = pretrained(tokenizer, mask_rate=0.5)
    dataset = learner.dataset(TEXTS)
    assert len(dataset) == 8  # pairs of consecutive texts
    torch.manual_seed(1)
    first, second = (dataset.__getitems__(range(8)) for _ in range(2))
    torch.manual_seed(1)
    again = dataset.__getitems__(range(8))
    assert torch.equal(first.inputs.tokens, again.inputs.tokens)
    assert not torch.equal(first.inputs.tokens, second.inputs.tokens)
    fixed = learner.dataset(TEXTS, training=False)
    assert torch.equal(fixed[0].inputs.tokens, fixed[0].inputs.tokens)


def test_loss_is_the_sum_of_the_objectives_means(tokenizer):
    learner = pretrained(tokenizer, "mpm", "taco_tiny", mask_rate=0.4).eval()
    batch = learner.dataset(TEXTS, training=False).__getitems__(range(8))
    expected = 0.0
    for name, (logits, targets) in learner(batch).items():
        mean = torch.nn.functional.cross_entropy(logits, targets, ignore_index=IGNORED)
        expected += learner.task.coefficients[name] * mean
    assert len(batch.weights) == 2
    torch.testing.assert_close(learner.loss(batch), expected)


def test_loss_of_a_batch_without_predictions_is_zero(classifier):
    batch = classifier.dataset(TEXTS[:2], [None, None], training=False).__getitems__([0, 1])
    assert batch.weights == {"label": 0.0} and classifier.loss(batch) == 0.0


def test_pairs_and_numbers_are_labeled_too(tokenizer):
    number = Labels(task="tsv", classes=[], metrics=["pearson"], pairs=True, bounds=[])
    learner = build_model("bert_tiny", tokenizer=tokenizer, task="glue", labels=number, layers=1)
    batch = learner.dataset([("a film", "music")], [2.5])[0]
    assert batch.targets.tolist() == [2.5]
    numbers = [("a film", "music")] * 2, [*np.array([2, 4])]
    assert learner.dataset(*numbers)[1].targets.tolist() == [4.0]
    assert batch.inputs.segments.tolist() == [[0, 0, 0, 0, 1, 1]]


def test_dataset_of_a_data_folder_has_its_examples(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(TEXTS))
    where = {"trainpref": str(tmp_path / "text.txt"), "destdir": str(tmp_path / "data")}
    preprocess(preprocess_config(**where, tokenizer="words", workers=1))
    folder = tmp_path / "data"
    learner = pretrained(Tokenizer.load(folder))
    stored, memory = learner.open_dataset(folder, training=False), learner.dataset(TEXTS)
    assert len(stored) == len(memory) == 8
    other = pretrained(Tokenizer.train(["other words"], kind="words"))
    with pytest.raises(ToolkitError, match=r"data must have the tokenizer of the learner, but"):
        other.open_dataset(folder)


WRONG = {
    "each text must have a label, but there are 2 texts and 1 label": (["a", "b"], ["good"]),
    "Training requires a label for each item. Give learner.dataset the labels": (["a"], None),
    "labels must be one of bad, good, but label 1 is 'fine'": (["a", "b"], ["good", "fine"]),
    "the data must have at least one example for the task, but have none": ([], []),
    "item 1: 'sentence' must be text, but is a number": (["a", 2], ["good", "bad"]),
}


@pytest.mark.parametrize(("message", "given"), WRONG.items())
def test_wrong_labels_are_rejected(message, given, classifier):
    with pytest.raises(ToolkitError, match=message):
        classifier.dataset(*given)


def test_tasks_that_cannot_read_the_texts_say_so(tokenizer, classifier):
    learner = pretrained(tokenizer)
    with pytest.raises(ToolkitError, match=r"learns from texts alone, but labels are given"):
        learner.dataset(TEXTS, LABELS)
    with pytest.raises(ToolkitError, match=r"a single item, but .* pairs requires two"):
        learner.dataset(["a film"])
    with pytest.raises(ToolkitError, match=r"texts in memory requires .*with squad. .*open_data"):
        pretrained(tokenizer, "squad").dataset(TEXTS)
    dataset = classifier.dataset(TEXTS, LABELS)
    with pytest.raises(ToolkitError, match=r"DataLoader of the dataset itself or of its Subset"):
        next(iter(DataLoader(ConcatDataset([dataset]), collate_fn=dataset.collate)))


def test_labels_and_task_options_require_a_task_and_a_tokenizer(tokenizer):
    with pytest.raises(ToolkitError, match=r"labels require a tokenizer and a task"):
        build_model("bert_tiny", vocabulary_size=9, task="glue", labels=["a", "b"])
    with pytest.raises(ToolkitError, match=r"task 'mlm' has no option 'mask_rat'. Did you mean"):
        pretrained(tokenizer, mask_rat=0.3)
    with pytest.raises(ToolkitError, match=r"requires a tokenizer with labels"):
        build_model("bert_tiny", tokenizer=tokenizer, sizes={"labels": 2}, task="glue").predict(
            ["a"]
        )
