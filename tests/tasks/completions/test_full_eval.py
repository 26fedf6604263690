"""Scores and accuracies on the sets of the BabyLM challenge equal loops with its evaluator's rules.

The loops read the files themselves, one option and one token at a time. The rules are those of
sentence_zero_shot in github.com/babylm/evaluation-pipeline-2025: tokens that end after the prefix
are scored, the first of the highest scores is chosen, and paradigms count equally.
"""

from __future__ import annotations

import json
from itertools import groupby

import numpy as np
import pytest
import torch

from toolkit.commands.completions import encode_items, to_scores
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import Inputs
from toolkit.optim.update import Precision
from toolkit.tasks.completions.items import read_sets
from toolkit.tasks.completions.results import judge, summarize
from toolkit.tasks.completions.scorer import TextScorer
from toolkit.tasks.completions.suites import summarize_set

MODELS = [
    ("bert_tiny", "mlm"),
    ("deberta_tiny", "mlm"),
    ("composite_bert_tiny", "mlm"),
    ("transformer_lm_tiny", "language_modeling"),
    ("transformer_tiny", "translation"),
]
SETS = {"blimp_filtered": (3, 1), "supplement_filtered": (1, 2), "entity_tracking": (1, 1)}
"""Set -> every n-th of its files is read, and the number of items of each paradigm."""


def list_files(data, name):
    return sorted((data / "babylm/full_eval" / name).glob("*.jsonl"))[:: SETS[name][0]]


def read_options(files, count):
    """Per paradigm, the prefixes and options of its first items."""
    found = {}
    for file in files:
        for row in map(json.loads, file.read_text("utf-8").splitlines()):
            if "options" in row:
                name = f"{file.stem}_{row['numops']}_ops"
                options = [(row["input_prefix"], it) for it in row["options"]]
            else:
                name = row["UID"] if "field" in row else file.stem
                options = [("", row["sentence_good"]), ("", row["sentence_bad"])]
            if len(found.setdefault(name, [])) < count:
                found[name].append(options)
    return found


@torch.no_grad()
def score_option(learner, task, prefix, option):
    """The sum of log p of the tokens that end after the prefix, a forward pass for each."""
    tokenizer, text = learner.tokenizer, " ".join((prefix + option).split())
    vocabulary, total = tokenizer.vocabulary, 0.0
    encoder = learner.encoder
    if task == "translation":
        source = [*tokenizer.encode(prefix), vocabulary.sep]
        text, prefix = option, ""
        read = encoder(Inputs(torch.tensor([source])))
    offsets = tokenizer.encode_with_offsets([text])
    tokens, start = offsets.ids.tolist(), len(text) - len(" ".join(option.split()))
    for t, (begin, end) in enumerate(zip(offsets.starts, offsets.ends, strict=True)):
        if end <= start and begin < start:  # a mark of a space belongs to the word after it
            continue
        if task == "translation":
            row = torch.tensor([[vocabulary.sep, *tokens[:t]]])
            states = encoder.decode(row, read, None)[0]
            logits = encoder.scores(states.reshape(-1, states.shape[-1])[-1:])
        elif task == "language_modeling":
            row = torch.tensor([[vocabulary.sep, *tokens[:t]]])
            logits = encoder.scores(encoder(Inputs(row)).states[0, -1:])
        else:
            row = torch.tensor([[vocabulary.cls, *tokens, vocabulary.sep]])
            row[0, 1 + t] = vocabulary.mask
            states = encoder(Inputs(row)).states[0, 1 + t : 2 + t]
            logits = learner.task.head(states, encoder.token_embedding.weight)
        total += float(logits[0].log_softmax(-1)[tokens[t]])
    return total


def average(accuracies):
    """The mean over paradigms, and for entity tracking over its two files."""
    groups = groupby(accuracies, lambda it: it.split("_")[0] if it.endswith("_ops") else "")
    means = [np.mean([accuracies[it] for it in names]) for _, names in groups]
    return float(np.mean(means))


@pytest.fixture(scope="module")
def pieces(real_data):
    """SentencePiece's tokens of some of the sentences."""
    rows = [read_options(list_files(real_data, name), 1) for name in SETS]
    options = [option for row in rows for items in row.values() for option in items[0]]
    return Tokenizer.train([it for pair in options for it in pair if it], vocabulary_size=1500)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(("arch", "task"), MODELS)
def test_scores_and_accuracies_equal_the_evaluators_loop(
    real_data, make_learner, pieces, arch, task, name
):
    layers = "encoder_layers" if task == "translation" else "layers"
    learner = make_learner(arch, task, pieces, **{layers: 1}, max_positions=512).double()
    files, count = list_files(real_data, name), SETS[name][1]
    expected = {
        paradigm: [[score_option(learner, task, *it) for it in options] for options in items]
        for paradigm, items in read_options(files, count).items()
    }
    items, _ = read_sets([*map(str, files)], count)
    scorer = TextScorer(
        learner, "auto", precision=Precision("fp32", torch.device("cpu")), max_tokens=2000
    )
    texts = encode_items(scorer, items, "option", "model")
    scores, misses = scorer.score(texts)
    rows = [row for found in expected.values() for row in found]
    np.testing.assert_allclose(scores, np.concatenate(rows), rtol=0, atol=1e-8)
    assert np.std(scores) > 1, "else little is compared"
    found = to_scores(items, scores, misses, texts, "none", "fp32", "first")
    outcome = judge(items, found, "first")
    record = summarize(items, outcome, "items") | {"correlations": []}
    accuracies = {
        paradigm: float(np.mean([np.argmax(row) == 0 for row in found]))
        for paradigm, found in expected.items()
    }
    assert {it["name"]: it["accuracy"] for it in record["paradigms"]} == accuracies
    by = "phenomena" if name == "entity_tracking" else "paradigms"
    assert summarize_set(record, by)["score"] == pytest.approx(average(accuracies))
