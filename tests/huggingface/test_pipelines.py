"""Pipelines of Transformers on exports."""

import pytest
import torch
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    pipeline,
)


def open_pipeline(kind, folder):
    return pipeline(kind, model=str(folder), trust_remote_code=True)


def test_fill_mask_equals_the_learner(make_learner, export):
    learner, _ = make_learner("mpm", "taco_tiny")
    fill = open_pipeline("fill-mask", export(learner)[1])
    found = fill(f"the {fill.tokenizer.mask_token} sat", top_k=3)
    [expected] = learner.fill_mask("the [MASK] sat", top=3)
    vocabulary = learner.tokenizer.vocabulary
    symbols = [vocabulary.display_symbol(symbol) for symbol in vocabulary.symbols]
    assert [symbols[each["token"]] for each in found] == [symbol for symbol, _ in expected]
    scores = [score for _, score in expected]
    assert [each["score"] for each in found] == pytest.approx(scores, rel=1e-4)


def test_classes_equal_those_of_the_learner(make_learner, export):
    learner, _ = make_learner("glue", "taco_tiny")
    classify = open_pipeline("text-classification", export(learner)[1])
    [expected] = learner.predict([("the cat sat", "a cat")])
    found = classify({"text": "the cat sat", "text_pair": "a cat"}, top_k=None)
    assert {it["label"]: it["score"] for it in found} == pytest.approx(expected.probabilities, 1e-4)


@pytest.mark.parametrize(
    ("kind", "arch"), [("pos_tagging", "conv_san_ud"), ("subword_tagging", "composite_bert_tiny")]
)
def test_tags_equal_those_of_the_learner(make_learner, export, kind, arch):
    learner, _ = make_learner(kind, arch)
    tag = open_pipeline("token-classification", export(learner)[1])
    words = ["the", "big\u00a0dog", "loudly", "barks"]
    [(_, expected, _)] = learner.predict([words])
    encoded = tag.tokenizer([words], is_split_into_words=True, return_tensors="pt")
    assert tag.tokenizer(" ".join(words))["input_ids"] == encoded["input_ids"][0].tolist()
    first = first_tokens(learner, words) if kind == "subword_tagging" else range(len(words))
    with torch.no_grad():
        best = tag.model(**encoded).logits[0].argmax(-1)
    assert [tag.model.config.id2label[best[i].item()] for i in first] == expected
    by_index = {each["index"]: each["entity"] for each in tag(" ".join(words))}
    assert [by_index[i] for i in first] == expected


def first_tokens(learner, words):
    """Index of the first subword of each word, after [CLS]."""
    lengths = [len(learner.tokenizer.encode(word)) for word in words]
    return [1 + sum(lengths[:i]) for i in range(len(words))]


def test_answers_equal_those_of_the_learner(make_learner, export):
    """Transformers 5 has no pipeline for questions; this is what that of version 4 computes."""
    learner, _ = make_learner("squad", "composite_bert_tiny")
    folder = export(learner)[1]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForQuestionAnswering.from_pretrained(folder)
    question, context = "Who built the mill?", "The old mill was built in 1905 by Anna Bell."
    [expected] = learner.predict([(question, context)])
    encoded = tokenizer(question, context, return_tensors="pt", return_offsets_mapping=True)
    offsets, inside = encoded.pop("offset_mapping")[0], encoded.sequence_ids()
    with torch.no_grad():
        output = model(**encoded)
    scores = output.start_logits[0, :, None] + output.end_logits[0]
    passage = torch.tensor([part == 1 for part in inside])
    scores = scores.masked_fill(~(passage[:, None] & passage).triu(), -torch.inf)
    first, last = divmod(scores.argmax().item(), len(inside))
    assert (offsets[first][0], offsets[last][1]) == (expected.start, expected.end)


def test_generate_equals_greedy_search(make_learner, export):
    learner, _ = make_learner("translation", "transformer_tiny")
    folder = export(learner)[1]
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
    generated = model.generate(**tokenizer("the cat sat", return_tensors="pt"), max_new_tokens=9)
    assert generated.shape[1] > 1
    for n, token in enumerate(generated[0].tolist()[1:], 1):
        previous = generated[:, :n]
        output = model(**tokenizer("the cat sat", return_tensors="pt"), decoder_input_ids=previous)
        allowed = output.logits[0, -1].index_fill(
            0, torch.tensor(model.config.forbidden_token_ids), -torch.inf
        )
        if n == 1:
            allowed[model.config.target_eos_token_id] = -torch.inf
        assert token == allowed.argmax()
