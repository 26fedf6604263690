"""Transformers classes: models, losses and pipelines."""

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
    pipeline,
)

from toolkit.generation.hypothesis import SpecialTokens
from toolkit.generation.step_scorer import CausalReader
from toolkit.huggingface import ToolkitModel, to_huggingface
from toolkit.nn.ops.dropout import Dropout

ENCODERS = ["bert_tiny", "composite_bert_tiny", "convbert_tiny", "taco_tiny"]


@pytest.mark.parametrize("arch", ["composite_bert_tiny", "taco_tiny"])
@pytest.mark.parametrize("kind", ["glue", "regression", "multiple_choice", "squad"])
def test_scores_of_heads_equal_the_learners(make_learner, hf_inputs, kind, arch):
    learner, batch = make_learner(kind, arch)
    model, inputs = to_huggingface(learner), hf_inputs(batch.inputs)
    with torch.no_grad():
        expected = [prediction[0] for prediction in learner(batch).values()]
        if kind == "multiple_choice":
            inputs = {name: t.unflatten(0, batch.option_rows.shape) for name, t in inputs.items()}
        output = model(**inputs)
    found = [output.start_logits, output.end_logits] if kind == "squad" else [output.logits]
    for scores, logits in zip(expected, found, strict=True):
        assert torch.equal(logits.view_as(scores), scores)


@pytest.mark.parametrize(
    ("task", "arch"),
    [
        *(("mpm", "taco_tiny"), ("rtd", "convbert_tiny"), ("hybrid", "bert_tiny")),
        *(("mlm", arch) for arch in ENCODERS),
    ],
)
def test_scores_of_tokens_equal_the_learners(make_learner, hf_inputs, task, arch):
    learner, batch = make_learner(task, arch)
    inputs = batch.inputs
    with torch.no_grad():
        part = learner.task.generator if task == "rtd" else learner.task
        encoder = part.encoder if task == "rtd" else learner.encoder
        states = encoder(inputs).states.flatten(0, 1)
        expected = part.head(states, encoder.token_embedding.weight)
        model = to_huggingface(learner, component="generator" if task == "rtd" else None)
        assert torch.equal(model(**hf_inputs(inputs)).logits.flatten(0, 1), expected)
        if task == "rtd":
            model = to_huggingface(learner)
            expected = learner.task.head(learner.encoder(inputs).states.flatten(0, 1))
            assert torch.equal(model(**hf_inputs(inputs)).logits.flatten(), expected)


@pytest.mark.parametrize(
    ("kind", "arch"), [("pos_tagging", "conv_san_ud"), ("subword_tagging", "taco_tiny")]
)
def test_scores_of_tags_equal_the_learners(make_learner, hf_inputs, kind, arch):
    learner, batch = make_learner(kind, arch)
    model = to_huggingface(learner)
    with torch.no_grad():
        expected = learner(batch)["tag"][0]
        every = batch._replace(selected=torch.arange(batch.inputs.tokens.numel()))
        logits = model(**hf_inputs(batch.inputs)).logits.flatten(0, 1)
        assert torch.equal(logits, learner(every)["tag"][0])
    torch.testing.assert_close(logits[batch.selected], expected)


def test_words_are_padded_to_the_only_length_of_the_encoder(make_learner, hf_inputs):
    learner, batch = make_learner("pos_tagging", "conv_san_ud")
    model, inputs = to_huggingface(learner), hf_inputs(batch.inputs)
    length = int(inputs["attention_mask"].sum(1).max())
    with torch.no_grad():
        whole = model(**inputs).logits[:, :length]
        assert torch.equal(model(**{n: t[:, :length] for n, t in inputs.items()}).logits, whole)


def test_scores_of_translations_equal_the_learners(make_learner, hf_inputs):
    learner, batch = make_learner("translation", "transformer_tiny")
    model, encoder = to_huggingface(learner), learner.encoder
    with torch.no_grad():
        states = encoder.decode(batch.previous, encoder(batch.inputs), batch.inputs.padding)
        expected = encoder.scores(states.flatten(0, 1))
        output = model(**hf_inputs(batch.inputs), decoder_input_ids=batch.previous)
    assert torch.equal(output.logits.flatten(0, 1), expected)


def test_scores_of_language_models_equal_the_learners(make_learner):
    learner, batch = make_learner("language_modeling", "transformer_lm_tiny")
    with torch.no_grad():
        expected = learner.encoder.scores(learner.encoder(batch.inputs).states.flatten(0, 1))
        logits = to_huggingface(learner)(input_ids=batch.inputs.tokens).logits
    assert torch.equal(logits.flatten(0, 1), expected)


def test_hybrid_models_open_as_causal_ones_and_generate_as_the_toolkit_does(make_learner, export):
    learner, batch = make_learner("hybrid", "deberta_tiny", pre_norm=True)
    model = AutoModelForCausalLM.from_pretrained(export(learner)[1], trust_remote_code=True)
    reader = CausalReader(learner.encoder, learner.task.head, learner.tokenizer.vocabulary)
    text, sentences = batch.inputs.tokens[:, :4], torch.arange(len(batch.inputs.tokens))
    expected = reader.next_scores(text, sentences)
    scores = model(input_ids=text).logits[:, -1]
    possible = expected.isfinite()
    assert torch.equal(scores[possible], expected[possible])
    special = SpecialTokens.from_vocabulary(learner.tokenizer.vocabulary).forbidden
    expected[:, list(special)] = -torch.inf
    generated = model.generate(text, max_new_tokens=1, do_sample=False)
    assert torch.equal(generated[:, 4], expected.argmax(1))


@pytest.mark.parametrize("arch", ["composite_bert_tiny", "taco_tiny"])
def test_states_of_layers_are_those_of_the_encoder(make_learner, hf_inputs, arch):
    learner, batch = make_learner("mlm", arch)
    encoder = ToolkitModel(to_huggingface(learner).config)
    encoder.encoder.load_state_dict(learner.encoder.state_dict())
    with torch.no_grad():
        output = encoder.eval()(**hf_inputs(batch.inputs), output_hidden_states=True)
        assert torch.equal(output.last_hidden_state, learner.encoder(batch.inputs).states)
    assert len(output.hidden_states) == 3


KINDS = {
    "mlm": "bert_tiny",
    "rtd": "convbert_tiny",
    "subword_tagging": "bert_tiny",
    "glue": "bert_tiny",
    "regression": "bert_tiny",
    "multiple_choice": "bert_tiny",
    "translation": "transformer_tiny",
    "language_modeling": "transformer_lm_tiny",
}


def make_rows(kind):
    """Six examples whose numbers of labels differ; one has none if labels are those of tokens."""
    random = torch.Generator().manual_seed(0)

    def draw(end, *size):
        return torch.randint(0, end, size, generator=random)

    rows = []
    for number in range(6):
        shape = (3, 9) if kind == "multiple_choice" else (9,)
        row = {"input_ids": 1 + draw(10, *shape), "attention_mask": torch.ones(shape).long()}
        if kind in ("glue", "multiple_choice"):
            row["labels"] = draw(2, 1)[0]
        elif kind == "regression":
            row["labels"] = torch.randn(1, generator=random)[0]
        else:
            classes = 2 if kind in ("rtd", "subword_tagging") else 10
            row["labels"] = draw(classes, *shape)
            row["labels"][number:] = -100
        rows.append(row)
    return rows


def train(learner, rows, folder, **options):
    """The model after one update with all rows, and the logged loss."""
    model = to_huggingface(learner)
    for module in model.modules():
        if isinstance(module, Dropout):
            module.rate = 0.0
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=1,
        learning_rate=0.5,
        optim="sgd",
        max_grad_norm=0.0,
        lr_scheduler_type="constant",
        report_to=[],
        save_strategy="no",
        logging_steps=1,
        use_cpu=True,
        disable_tqdm=True,
        **options,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=rows)
    trainer.train()
    return dict(model.named_parameters()), trainer.state.log_history[0]["loss"]


@pytest.mark.parametrize(
    "kind",
    ["mlm", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "mlm")],
)
def test_accumulated_batches_give_the_update_of_one_batch(make_learner, tmp_path, kind):
    learner, _ = make_learner(kind, KINDS[kind])
    rows = make_rows(kind)
    whole, loss = train(learner, rows, tmp_path / "whole", per_device_train_batch_size=6)
    parts, same = train(
        *(learner, rows, tmp_path / "parts"),
        per_device_train_batch_size=1,
        gradient_accumulation_steps=6,
    )
    assert same == pytest.approx(loss, rel=1e-3) and 0 < loss < 10  # the log has four digits
    before = dict(to_huggingface(learner).named_parameters())
    steps = [torch.cat([(p[n] - w).flatten() for n, w in before.items()]) for p in (whole, parts)]
    assert steps[0].norm() > 0.01
    assert (steps[1] - steps[0]).norm() < 1e-4 * steps[0].norm()


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
