import numpy as np
import pytest
import torch

from tests.helpers.conlleval import count_chunks
from toolkit.common.errors import ToolkitError
from toolkit.criteria import Classes
from toolkit.data.formats.tagging.split import TaggedSplit
from toolkit.distributed import World
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.tagging.config import ResolvedTaggingConfig
from toolkit.tasks.tagging.examples import TaggingExamples
from toolkit.tasks.tagging.span_predictions import SpanCollector
from toolkit.tasks.tagging.span_predictor import SpanPredictor
from toolkit.tasks.tagging.task import SpanTagging

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
        collector = SpanCollector(split)
        batch = examples.collate(np.arange(len(examples.lengths)), None)
        labels = [collector.tags.index(tag) for tag in guesses.replace("|", " ").split()]
        logits = torch.zeros(len(batch.word_ids), len(collector.tags))
        logits[torch.arange(len(labels)), labels] = 1
        collector.update(batch, {"tag": Classes(logits, batch.targets)})
        collector.sync(World())
        return collector

    return make


def test_spans_are_counted_by_type_as_by_conlleval(collect):
    collector = collect()
    true = [[word.split("/")[1] for word in sentence.split()] for sentence in VALID.split("|")]
    correct, support, found = count_chunks(true, [it.split() for it in GUESSES.split("|")])
    # true: NP VP, LST VP, NP, NP; predicted: NP VP, NP VP, NP NP, VP
    assert (correct.total(), support.total(), found.total()) == (3, 6, 7)
    assert collector.compute() == {"precision": 3 / 7, "recall": 3 / 6, "f1": 6 / 13}
    table, confusions = collector.tables()
    assert table.columns == ("type", "precision", "recall", "f1", "spans")
    assert list(table.rows) == [
        ("LST", 0.0, 0.0, 0.0, 1),
        ("NP", 1 / 4, 1 / 3, 2 / 7, 3),
        ("VP", 2 / 3, 1.0, 4 / 5, 2),
    ]
    assert confusions.columns == ("true", "predicted", "words")
    events = [values for event, values in collector.events() if event == "type"]
    assert [event["name"] for event in events] == ["LST", "NP", "VP"]
    assert events[1]["support"] == 3


def test_unseen_tags_are_those_of_the_file(collect):
    assert collect().split.unseen_tags == ["B-LST", "I-LST"]


def test_sentences_with_unknown_tags_do_not_count(collect):
    partly = collect(VALID.replace("a/B-NP", "a/_")).compute()
    assert partly == {"precision": 1 / 5, "recall": 1 / 4, "f1": 2 / 9}
    untagged = collect("a/_ dog/_", "B-NP I-NP")
    assert untagged.compute() == {} and untagged.tables() == []


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


def test_predicted_spans_are_words_of_the_sentence(tagged):
    tokenizer = TaggedSplit(tagged(TRAIN, VALID), "valid").tokenizer
    items = SpanPredictor(ResolvedTaggingConfig(tokens_per_sample=9), tokenizer).start([[]])
    assert items.spans(["the", "dog", "barks"], ["B-NP", "I-NP", "O"]) == [
        {"type": "NP", "start": 0, "end": 2, "text": "the dog"}
    ]
    assert items.spans([], []) == []
