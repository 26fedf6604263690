"""Heads of classifiers, taggers, span and choice models, from and to Transformers."""

from __future__ import annotations

import json

import pytest
import torch
import transformers

from tests.conversion.conftest import SHAPE, run_alone, write_vocabulary
from toolkit import load_checkpoint
from toolkit.checkpoints.load import EXTRA_FILE, read_config
from toolkit.checkpoints.tensor_files import read_tensors
from toolkit.common.errors import ToolkitError
from toolkit.config.load import compose
from toolkit.conversion.files import ConvertedModel, write_checkpoint
from toolkit.data.formats.classification.split import ClassificationTokenizer, Labels
from toolkit.data.formats.tagging.tokenizer import LabelTables, TaggingTokenizer
from toolkit.data.tokenizers.huggingface import WordPieceTokenizer
from toolkit.models.interface import Inputs, Sizes
from toolkit.tasks.build import build_learner
from toolkit.tasks.examples import TargetBatch
from toolkit.tasks.multiple_choice import MultipleChoiceBatch
from toolkit.tasks.squad.examples import SquadBatch
from toolkit.tasks.tagging.examples import TaggingBatch
from toolkit.tasks.tagging.predictions import SpanTagging

ROWS, LENGTH, OPTIONS = 6, 11, 3
NOTHING = {"weights": {}, "sentences": 0, "tokens": 0}


def make_inputs():
    """Texts of different lengths with two token types, for both programs."""
    torch.manual_seed(1)
    tokens = torch.randint(SHAPE["vocab_size"], (ROWS, LENGTH))
    padding = torch.arange(LENGTH) >= torch.tensor([11, 6, 9, 11, 7, 4])[:, None]
    segments = (torch.arange(LENGTH) >= 3).long().expand(ROWS, LENGTH) * ~padding
    hf_inputs = {
        "input_ids": tokens,
        "token_type_ids": segments,
        "attention_mask": (~padding).long(),
    }
    return Inputs(tokens, segments=segments, padding=padding), hf_inputs


def make_batch(task, inputs):
    """A batch of a task that predicts from these texts."""
    zeros, first = torch.zeros(ROWS, dtype=torch.long), torch.arange(ROWS) * LENGTH
    if task == "glue":
        return TargetBatch(inputs, first, zeros, ids=zeros, **NOTHING)
    if task == "squad":
        return SquadBatch(inputs, zeros, zeros, ~inputs.padding, zeros, zeros, **NOTHING)
    if task == "multiple_choice":
        rows = torch.arange(ROWS).view(-1, OPTIONS)
        return MultipleChoiceBatch(inputs, first, rows, zeros[:2], zeros[:2], **NOTHING)
    words = torch.zeros(ROWS * LENGTH, dtype=torch.long)
    every, known = torch.arange(len(words)), words.bool()
    return TaggingBatch(inputs, every, None, words, words, known, known, known, **NOTHING)


def check_same_scores(learner, hf_model):
    """Compare the scores of both programs wherever there is no padding."""
    inputs, hf_inputs = make_inputs()
    task = read_task_name(learner)
    with torch.no_grad():
        found = [it[0] for it in learner(make_batch(task, inputs)).values()]
    names = ["logits"] if task != "squad" else ["start_logits", "end_logits"]
    for one, name in zip(found, names, strict=True):
        other = run_alone(hf_model, hf_inputs, name)
        got = one.reshape(other.shape)
        if task in ("squad", "pos_tagging"):
            got, other = got[~inputs.padding], other[~inputs.padding]
        assert other.std() > 1e-3
        torch.testing.assert_close(got, other, atol=1e-5, rtol=0)


def read_task_name(learner):
    names = {"Glue": "glue", "Squad": "squad", "MultipleChoice": "multiple_choice"}
    return names.get(type(learner.task).__name__, "pos_tagging")


SUMMARY = {"summary_type": "first", "summary_use_proj": True, "summary_activation": "tanh"}
PLAIN = {"summary_type": "first", "summary_use_proj": False, "summary_activation": ""}
IMPORTS = [
    ("BertForSequenceClassification", {"num_labels": 3}, "pooled"),
    ("BertForTokenClassification", {"num_labels": 5}, ""),
    ("BertForQuestionAnswering", {}, ""),
    ("BertForMultipleChoice", {}, "pooled"),
    ("ElectraForSequenceClassification", {"num_labels": 3}, "gelu"),
    ("ElectraForMultipleChoice", SUMMARY, "pooled"),
    ("ElectraForMultipleChoice", PLAIN, "plain"),
    ("ConvBertForSequenceClassification", {"num_labels": 1}, "gelu"),
    ("ConvBertForMultipleChoice", SUMMARY, "pooled"),
    ("DebertaV2ForSequenceClassification", {"num_labels": 3}, "gelu"),
]


@pytest.mark.parametrize(("name", "settings", "kind"), IMPORTS)
def test_scores_of_an_imported_head_equal_transformers(saved, converted, name, settings, kind):
    width = {} if name.startswith(("Bert", "Deberta")) else {"embedding_size": 12}
    model, folder = saved(name, **width, **settings)
    learner = load_checkpoint(converted(folder))
    assert getattr(learner.task.config, "head", "") == kind
    check_same_scores(learner, model)


@pytest.fixture
def inner(tmp_path):
    write_vocabulary(tmp_path)
    return WordPieceTokenizer.from_file(tmp_path / "vocab.txt", lowercase=True)


def labels(classes, **options):
    """Labels of your own tables."""
    metrics = ["accuracy"] if classes else ["spearman"]
    fields = {"task": "tsv", "metrics": metrics, "pairs": False, "bounds": [], **options}
    return Labels(classes=classes, **fields)


def add_labels(task, inner, tags=("DET", "NOUN", "X")):
    if task == "glue":
        return ClassificationTokenizer(inner, labels(["bad", "good", "odd"]))
    tables = {"characters": [], "words": ["cat"], "ambiguous": [], "column": "upos"}
    return TaggingTokenizer(inner, LabelTables(tags=list(tags), **tables)) if tags else inner


def train(folder, tokenizer, arch, task, **options):
    """A checkpoint as training would write it, with random weights."""
    small = {"layers": 2, "width": 16, "heads": 2, "max_positions": 16}
    arch_options = {f"arch.{name}": value for name, value in small.items()}
    task_options = {f"task.{name}": value for name, value in options.items()}
    run = compose({"arch": arch, "task": task, **arch_options, **task_options})
    sizes = Sizes(tokenizer.sizes)
    torch.manual_seed(3)
    tensors = build_learner(run.arch, run.task, sizes).state_dict()
    tensors = {name: torch.randn_like(tensor) * 0.3 for name, tensor in tensors.items()}
    model = ConvertedModel(run=run, sizes=sizes, tensors=tensors, tokenizer=tokenizer)
    write_checkpoint(folder, model, folder)
    return folder


EXPORTS = [
    ("bert", "glue", "pooled", "BertForSequenceClassification"),
    ("bert", "glue", "gelu", "ElectraForSequenceClassification"),
    ("bert_tiny", "pos_tagging", "", "ElectraForTokenClassification"),
    ("bert_tiny", "multiple_choice", "pooled", "ElectraForMultipleChoice"),
    ("convbert", "glue", "gelu", "ConvBertForSequenceClassification"),
    ("convbert", "multiple_choice", "plain", "ConvBertForMultipleChoice"),
    ("deberta", "glue", "gelu", "DebertaV2ForSequenceClassification"),
    ("deberta", "squad", "", "DebertaV2ForQuestionAnswering"),
]


@pytest.mark.parametrize(("arch", "task", "kind", "class_"), EXPORTS)
def test_exported_head_computes_the_scores_of_the_checkpoint(
    inner, tmp_path, converted, arch, task, kind, class_
):
    options = {"head": kind, "head_dropout": 0.25} if kind else {}
    tokenizer = add_labels(task, inner, tags=("A", "B") if task == "pos_tagging" else ())
    source = train(tmp_path / "run", tokenizer, arch, task, **options)
    folder = converted(source, "hf")
    hf_model = getattr(transformers, class_).from_pretrained(folder).eval()
    assert hf_model.config.architectures == [class_]
    rates = {part.p for part in hf_model.modules() if isinstance(part, torch.nn.Dropout)}
    assert 0.25 in rates or not kind
    learner, again = load_checkpoint(source), load_checkpoint(converted(folder, name="again"))
    same = again.state_dict()
    assert all(torch.equal(same[name], it) for name, it in learner.state_dict().items())
    check_same_scores(again, hf_model)
    check_same_scores(learner, hf_model)


def test_native_export_omits_and_reports_a_head_that_transformers_lacks(
    inner, tmp_path, converted, capsys
):
    source = train(tmp_path / "run", add_labels("glue", inner), "bert", "glue", head="plain")
    folder = converted(source, "hf", name="complete")
    classes = json.loads((folder / "config.json").read_text())["architectures"]
    assert classes == ["ToolkitForSequenceClassification"]
    folder = converted(source, "hf", classes="native")
    assert json.loads((folder / "config.json").read_text())["architectures"] == ["BertModel"]
    printed = " ".join(capsys.readouterr().out.split())
    assert "no class of Transformers computes --task.head plain: the head was not" in printed
    assert "task.head.output.bias, task.head.output.weight" in printed


@pytest.mark.parametrize(
    ("classes", "options"),
    [
        (["no", "yes"], {"task": "RTE", "pairs": True}),
        ([], {"task": "STS-B", "metrics": ["pearson"], "pairs": True, "bounds": [0.0, 5.0]}),
    ],
)
def test_labels_and_options_survive_the_round_trip(inner, tmp_path, converted, classes, options):
    tokenizer = ClassificationTokenizer(inner, labels(classes, **options))
    source = train(tmp_path / "run", tokenizer, "bert", "glue", tokens_per_sample=9)
    folder = converted(source, "hf")
    config = transformers.AutoConfig.from_pretrained(folder)
    assert list(config.id2label.values()) == (classes or ["LABEL_0"])
    assert config.problem_type == ("single_label_classification" if classes else "regression")
    back = converted(folder, name="back")
    before, after = load_checkpoint(source), load_checkpoint(back)
    assert after.tokenizer.labels == tokenizer.labels
    assert read_config(back)[0].task == read_config(source)[0].task
    texts = [("a cat", "the dog")] if tokenizer.labels.pairs else ["a cat sat ."]
    assert before.predict(texts) == after.predict(texts)


@pytest.mark.parametrize("classes", ["native", "toolkit"])
def test_long_texts_are_cut_where_the_task_cuts_them(inner, tmp_path, converted, classes):
    tokenizer = ClassificationTokenizer(inner, labels(["no", "yes"]))
    source = train(tmp_path / "run", tokenizer, "bert", "glue", tokens_per_sample=7)
    folder = converted(source, "hf", classes=classes)
    hf_model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    hf_tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    text = "the cat sat on the mat " * 4
    with torch.no_grad():
        logits = hf_model(**hf_tokenizer(text, truncation=True, return_tensors="pt")).logits
    found = load_checkpoint(source).predict([text])[0]
    assert abs(found.probabilities["yes"] - float(logits.softmax(-1)[0, 1])) < 1e-6


def test_imported_classifier_cuts_texts_where_its_tokenizer_does(saved, converted):
    _, folder = saved("BertForSequenceClassification", num_labels=3)
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 8}')
    assert load_checkpoint(converted(folder)).task.config.tokens_per_sample == 8


def test_tags_and_threshold_survive_the_round_trip(inner, tmp_path, converted):
    source = train(tmp_path / "run", add_labels("pos_tagging", inner), "bert", "pos_tagging")
    tables = load_checkpoint(converted(converted(source, "hf"), name="back")).tokenizer.tables
    assert (tables.tags, tables.column, tables.words) == (["DET", "NOUN", "X"], "upos", [])
    source = train(tmp_path / "squad", inner, "bert", "squad", stride=5)
    back = load_checkpoint(converted(converted(source, "hf"), name="answers"))
    threshold = load_checkpoint(source).task.null_threshold
    assert torch.equal(back.task.null_threshold, threshold) and back.task.config.stride == 5


@pytest.mark.slow
def test_taggers_of_spans_are_recognized_by_their_tags(saved, converted, inner, tmp_path):
    tags = ["O", "B-PER", "I-PER"]
    _, folder = saved("BertForTokenClassification", id2label=dict(enumerate(tags)))
    learner = load_checkpoint(converted(folder))
    assert isinstance(learner.task, SpanTagging) and learner.tokenizer.tables.tags == tags
    spans = add_labels("span_tagging", inner, tags=tags)
    source = train(tmp_path / "run", spans, "bert", "span_tagging")
    back = converted(converted(source, "hf"), name="back")
    assert read_config(back)[0].task == read_config(source)[0].task
    sentence = ["the", "cats", "sat"]
    assert load_checkpoint(back).predict([sentence]) == load_checkpoint(source).predict([sentence])


@pytest.mark.parametrize(
    ("name", "settings", "note"),
    [
        ("ConvBertForMultipleChoice", {}, "does not summarize the first token"),
        (
            "BertForSequenceClassification",
            {"problem_type": "multi_label_classification"},
            "predicts several labels of a text at once",
        ),
    ],
)
def test_unsupported_heads_are_kept_and_reported(saved, converted, capsys, name, settings, note):
    _, folder = saved(name, **settings)
    checkpoint = converted(folder)
    assert read_config(checkpoint)[0].task.name == "encode"
    assert any("classifier" in tensor for tensor in read_tensors(checkpoint / EXTRA_FILE))
    assert f"the head of {name} {note}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id2label": {"0": "a", "1": "a"}}, r"^id2label in config.json must name the ids from 0"),
        ({"classifier_dropout": "much"}, r"^task.head_dropout must be .*, but is 'much'"),
        ({"toolkit": {"task": "glue", "options": 3}}, r"^config.json: options: expected object"),
        (
            {"toolkit": {"task": "glue", "labels": {"metrics": ["bleu"]}}},
            r"metrics: expected some of accuracy",
        ),
        (
            {"toolkit": {"task": "glue", "labels": {"task": "SST-2", "pairs": True}}},
            r"pairs must be False for SST-2",
        ),
        ({"toolkit": {"task": "glue", "options": {"head_dropout": 1}}}, ""),
    ],
)
def test_import_rejects_labels_that_it_cannot_read(saved, converted, change, message):
    _, folder = saved("BertForSequenceClassification")
    classes = {"classes": ["LABEL_0", "LABEL_1"]}
    if "metrics" in message or "pairs" in message:
        change["toolkit"]["labels"] |= classes
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **change}))
    if not message:  # the class's own dropout counts
        assert load_checkpoint(converted(folder)).task.config.head_dropout == 0.1
        return
    with pytest.raises(ToolkitError, match=message):
        converted(folder)
    assert not folder.with_name("hf-toolkit").exists()
