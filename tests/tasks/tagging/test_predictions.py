from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.helpers.conlleval import count_chunks
from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.criteria import Classes
from toolkit.data.formats.tagging.split import TaggedSplit
from toolkit.distributed import World
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.tagging.examples import ResolvedTaggingConfig, TaggingExamples
from toolkit.tasks.tagging.predictions import SpanResults, SpanTagging, TaggingResults


@pytest.fixture
def results(tagged):
    """Predictions of a model that is correct in the first sentence and tags the rest as nouns."""
    examples = TaggingExamples(
        ResolvedTaggingConfig(tokens_per_sample=60), TaggedSplit(tagged(), "valid"), row_multiple=64
    )
    results = TaggingResults(examples)
    tags = results.tags
    for sentence in range(3):
        batch = examples.collate(np.array([sentence]), None)
        logits = torch.zeros(len(batch.ids), len(tags))
        logits[:, tags.index("NOUN")] = 1
        if sentence == 0:
            logits[torch.arange(3), batch.targets[:3]] = 2
        results.update(batch, {"tag": Classes(logits, batch.targets)})
    results.sync(World())
    return results


def test_metrics_and_tables_cover_each_tag(results):
    rows = {row[0]: row[1:] for row in results.tables()[0].rows}
    assert rows["NOUN"] == (2 / 6, 1.0, 0.5, 2)
    assert rows["DET"] == (0.0, 0.0, 0.0, 1)
    assert rows["ADV"] == (0.0, 0.0, 0.0, 1)  # a tag that the training data does not have
    f1 = [0.5, 0, 2 / 3, 2 / 3, 1, 0]  # NOUN DET PUNCT VERB PRON ADV
    assert results.metrics()["macro_f1"] == pytest.approx(np.mean(f1))


def test_events_report_each_tag_and_the_confusion_matrix(results):
    *tags, (name, confusions) = results.events()
    assert {event for event, _ in tags} == {"tag"} and len(tags) == 6
    assert name == "confusion" and confusions["true"] == [*confusions["predicted"], "ADV"]
    assert sum(map(sum, confusions["counts"])) == 9
    assert confusions["counts"][-1][confusions["predicted"].index("NOUN")] == 1  # loudly/ADV


TRAIN = "the/B-NP dog/I-NP barks/B-VP ./O|a/B-NP bark/I-NP|in/B-PP it/B-NP"
VALID = "a/B-NP dog/I-NP barks/B-VP|in/B-LST it/I-LST barks/B-VP|the/B-NP dog/I-NP|it/B-NP"
GUESSES = "B-NP I-NP B-VP|B-NP I-NP B-VP|I-NP B-NP|B-VP"


@pytest.fixture
def collect(tagged):
    def make(valid=VALID, guesses=GUESSES):
        split = TaggedSplit(tagged(TRAIN, valid), "valid")
        examples = TaggingExamples(
            ResolvedTaggingConfig(tokens_per_sample=60), split, row_multiple=8
        )
        results = SpanResults(examples)
        batch = examples.collate(np.arange(len(examples.lengths)), None)
        labels = [results.tags.index(tag) for tag in guesses.replace("|", " ").split()]
        logits = torch.zeros(len(batch.ids), len(results.tags))
        logits[torch.arange(len(labels)), labels] = 1
        results.update(batch, {"tag": Classes(logits, batch.targets)})
        results.sync(World())
        return results

    return make


def test_spans_are_counted_by_type_as_by_conlleval(collect):
    results = collect()
    true = [[word.split("/")[1] for word in sentence.split()] for sentence in VALID.split("|")]
    correct, support, found = count_chunks(true, [it.split() for it in GUESSES.split("|")])
    # true: NP VP, LST VP, NP, NP; predicted: NP VP, NP VP, NP NP, VP
    assert (correct.total(), support.total(), found.total()) == (3, 6, 7)
    assert results.metrics() == {"precision": 3 / 7, "recall": 3 / 6, "f1": 6 / 13}
    table, confusions = results.tables()
    assert table.columns == ("type", "precision", "recall", "f1", "spans")
    assert list(table.rows) == [
        ("LST", 0.0, 0.0, 0.0, 1),
        ("NP", 1 / 4, 1 / 3, 2 / 7, 3),
        ("VP", 2 / 3, 1.0, 4 / 5, 2),
    ]
    assert confusions.columns == ("true", "predicted", "words")
    events = [values for event, values in results.events() if event == "type"]
    assert [event["name"] for event in events] == ["LST", "NP", "VP"]
    assert events[1]["support"] == 3


def test_sentences_with_unknown_tags_do_not_count(collect):
    partly = collect(VALID.replace("a/B-NP", "a/_")).metrics()
    assert partly == {"precision": 1 / 5, "recall": 1 / 4, "f1": 2 / 9}
    untagged = collect("a/_ dog/_", "B-NP I-NP")
    assert untagged.metrics() == {} and untagged.tables() == []


def test_written_file_has_both_tags(collect, tmp_path):
    collect().write(tmp_path / "out.txt")
    rows = [row.split() for row in (tmp_path / "out.txt").read_text().splitlines()]
    assert rows[4:7] == [
        ["in", "B-LST", "B-NP"],
        ["it", "I-LST", "I-NP"],
        ["barks", "B-VP", "B-VP"],
    ]


def test_data_with_other_tags_is_rejected(tagged):
    source = SplitSource(tagged(), "valid", 1, False, 1)
    message = r"spans require tags such as O, .* there is 'PUNCT'. .* or use --task pos_tagging"
    with pytest.raises(ToolkitError, match=message):
        SpanTagging.examples(ResolvedTaggingConfig(tokens_per_sample=9), source)


def test_predicted_spans_are_words_of_their_sentence(tagged):
    tokenizer = TaggedSplit(tagged(TRAIN, VALID), "valid").tokenizer
    learner = build_model("bert_tiny", tokenizer=tokenizer, task="span_tagging", layers=1)
    predictor = learner.task.predictor_class(learner.task, learner.encoder, tokenizer)
    results = predictor.start([["the", "dog", "barks"], [], ["a", "cat"]])
    tags = ["B-NP", "I-NP", "O", "I-NP", "I-NP"]
    results.predicted[:] = [results.tags.index(tag) for tag in tags]
    first, empty, last = results.records()
    assert (first.words, first.tags) == (["the", "dog", "barks"], tags[:3])
    assert first.spans == [{"type": "NP", "start": 0, "end": 2, "text": "the dog"}]
    assert empty == ([], [], [], [])
    assert last.spans == [{"type": "NP", "start": 0, "end": 2, "text": "a cat"}]
