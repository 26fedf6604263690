import numpy as np
import pytest
import torch

from toolkit.criteria import Classes
from toolkit.data.formats.tagging.split import TaggedSplit
from toolkit.distributed import World
from toolkit.tasks.tagging.config import ResolvedTaggingConfig
from toolkit.tasks.tagging.examples import TaggingExamples
from toolkit.tasks.tagging.predictions import TaggingCollector


@pytest.fixture
def collector(tagged):
    """Predictions of a model that is correct in the first sentence and tags the rest as nouns."""
    examples = TaggingExamples(
        ResolvedTaggingConfig(tokens_per_sample=60),
        TaggedSplit(tagged(), "valid"),
        row_multiple=64,
    )
    collector = TaggingCollector(examples.split)
    tags = collector.tags
    for sentence in range(3):
        batch = examples.collate(np.array([sentence]), None)
        logits = torch.zeros(len(batch.word_ids), len(tags))
        logits[:, tags.index("NOUN")] = 1
        if sentence == 0:
            logits[torch.arange(3), batch.targets[:3]] = 2
        collector.update(batch, {"tag": Classes(logits, batch.targets)})
    collector.sync(World())
    return collector


def test_collector_has_the_predicted_tag_of_every_word(collector):
    assert [collector.tags[t] for t in collector.predicted] == [
        "PRON",
        "VERB",
        "PUNCT",
        *["NOUN"] * 6,
    ]


def test_metrics_and_tables_cover_each_tag(collector):
    rows = {row[0]: row[1:] for row in collector.tables()[0].rows}
    assert rows["NOUN"] == (2 / 6, 1.0, 0.5, 2)
    assert rows["DET"] == (0.0, 0.0, 0.0, 1)
    assert rows["ADV"] == (0.0, 0.0, 0.0, 1)  # a tag that the training data does not have
    f1 = [0.5, 0, 2 / 3, 2 / 3, 1, 0]  # NOUN DET PUNCT VERB PRON ADV
    assert collector.compute()["macro_f1"] == pytest.approx(np.mean(f1))


def test_macro_f1_equals_that_of_scikit_learn(collector):
    metrics = pytest.importorskip("sklearn.metrics")
    true = [collector.true_tags[label] for label in collector.true_labels]
    predicted = [collector.tags[label] for label in collector.predicted]
    want = metrics.f1_score(true, predicted, average="macro", zero_division=0)
    assert collector.compute()["macro_f1"] == pytest.approx(want)


def test_events_report_each_tag_and_the_confusion_matrix(collector):
    *tags, (name, confusions) = collector.events()
    assert {event for event, _ in tags} == {"tag"} and len(tags) == 6
    assert name == "confusion" and confusions["true"] == [*confusions["predicted"], "ADV"]
    assert sum(map(sum, confusions["counts"])) == 9
    assert confusions["counts"][-1][confusions["predicted"].index("NOUN")] == 1  # loudly/ADV


def test_predictions_are_written_into_the_treebank(collector, tmp_path):
    collector.write(tmp_path / "out.txt")
    words = (tmp_path / "out.txt").read_text().split()
    assert words[1::2] == ["PRON", "VERB", "PUNCT", *["NOUN"] * 6]
