"""Hybrid training against loops in float64: what is predicted from what, scores, whole runs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from toolkit import ToolkitError, build_model, load_checkpoint
from toolkit.cli.convert import main as convert
from toolkit.config.commands.generate import ContinueConfig
from toolkit.criteria import IGNORED
from toolkit.data.storage.data_folder import DataFolder
from toolkit.distributed import World
from toolkit.models.interface import Inputs
from toolkit.optim.update import Precision
from toolkit.tasks.completions.scorer import TextScorer
from toolkit.tasks.text_generation import TextGenerator
from toolkit.training.run import TrainingRun

SHAPE = {"width": 16, "heads": 2}
ARCHS = ["bert_tiny", "deberta_tiny", "modernbert_tiny", "composite_bert_tiny"]
HYBRID = {"task": "hybrid", "log_interval": 7, "task.causal_ratio": 0.5}


def make_learner(data, arch="bert_tiny", **options):
    torch.manual_seed(5)
    tokenizer = DataFolder.open(data).tokenizer
    learner = build_model(arch, tokenizer=tokenizer, task="hybrid", **SHAPE, **options)
    learner.double().eval()
    with torch.no_grad():
        for parameter in learner.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return learner


def log_p(learner, tokens, position, target, *, causal=False):
    """log p(target) from the state of one position of a sentence."""
    inputs = Inputs(torch.tensor([tokens]), causal=causal)
    states = learner.encoder(inputs).states[0, position : position + 1]
    logits = learner.task.head(states, learner.encoder.token_embedding.weight)
    return float(logits[0].log_softmax(-1)[target])


@torch.no_grad()
@pytest.mark.parametrize("arch", ARCHS)
def test_causal_states_are_those_of_the_prefix_alone(data, arch):
    learner = make_learner(data, arch)
    tokens = torch.randint(5, 20, (2, 9))
    whole = learner.encoder(Inputs(tokens, causal=True)).states
    for end in range(1, 10):
        part = learner.encoder(Inputs(tokens[:, :end], causal=True)).states
        torch.testing.assert_close(part, whole[:, :end])
    assert (learner.encoder(Inputs(tokens)).states - whole)[:, :-1].abs().max() > 0.1


@torch.no_grad()
@pytest.mark.parametrize("arch", ARCHS)
def test_causal_state_of_one_layer_is_the_plain_state_of_the_prefix(data, arch):
    learner = make_learner(data, arch, layers=1)
    tokens = torch.randint(5, 20, (2, 9))
    whole = learner.encoder(Inputs(tokens, causal=True)).states
    for end in range(1, 10):
        plain = learner.encoder(Inputs(tokens[:, :end])).states
        torch.testing.assert_close(plain[:, -1], whole[:, end - 1])


@torch.no_grad()
def test_loss_equals_a_loop_over_sentences_and_tokens(data):
    options = {"causal_ratio": 0.4, "sample_mode": "blocks", "tokens_per_sample": 12}
    learner = make_learner(data, task_options=options)
    examples = learner.open_dataset(data, "train").examples
    ids, vocabulary = np.arange(20), learner.tokenizer.vocabulary
    batch = examples.collate(ids, 3)
    originals = examples._samples.read_batch(ids).tokens.tolist()
    causal = examples.noise(ids, 3).grid(5, 1)[:, 0] < 0.4
    assert 3 < causal.sum() < 15 and batch.sentences == 20
    totals, counts, masked_rows = [0.0, 0.0], [0, 0], iter(batch.inputs.tokens.tolist())
    special = {vocabulary.cls, vocabulary.sep, vocabulary.pad}
    chosen = set(batch.selected[batch.targets != IGNORED].tolist())
    width, row = batch.inputs.tokens.shape[1], 0
    for original, left in zip(originals, causal.tolist(), strict=True):
        original = [it for it in original if it != vocabulary.pad]
        seen = original if left else next(masked_rows)[: len(original)]
        for position, token in enumerate(original):
            wanted = token not in special and (left or row * width + position - 1 in chosen)
            if wanted:
                totals[left] -= log_p(learner, seen, position - 1, token, causal=left)
                counts[left] += 1
        row += not left
    assert batch.weights == {"mntp": counts[0], "causal": counts[1]} and min(counts) > 5
    expected = 0.6 * totals[0] / counts[0] + 0.4 * totals[1] / counts[1]
    assert float(learner.loss(batch)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_a_kind_of_sentence_that_is_missing_has_no_weight_and_no_loss(data, ratio):
    learner = make_learner(data, task_options={"causal_ratio": ratio})
    batch = learner.open_dataset(data, "train").examples.collate(np.arange(6), 1)
    missing, other = ("causal", "mntp") if ratio == 0 else ("mntp", "causal")
    with torch.no_grad():
        predictions = learner(batch)
        totals = learner.criterion(predictions)
    assert batch.weights[missing] == 0 == float(totals[missing]) and batch.weights[other] > 0
    found = learner.task.metrics(predictions, batch)
    assert list(found) == ["accuracy" if other == "mntp" else "causal_accuracy"]


@torch.no_grad()
@pytest.mark.parametrize("scoring", ["pseudo_log_likelihood", "log_likelihood"])
@pytest.mark.parametrize("arch", ["bert_tiny", "deberta_tiny"])
def test_scores_of_both_modes_equal_loops(data, arch, scoring):
    learner = make_learner(data, arch)
    precision = Precision("fp32", torch.device("cpu"))
    scorer = TextScorer(learner, scoring, precision=precision, max_tokens=60)
    prefix, option = "the cat sat", "on a mat"
    texts = ["dogs run far and saw how", f"{prefix} {option}"]
    found = scorer.score(scorer.encode(texts, [texts[0], option]))[0]
    vocabulary = learner.tokenizer.vocabulary
    for text, total in zip(texts, found, strict=True):
        ids, expected = learner.tokenizer.encode(text), 0.0
        first = len(learner.tokenizer.encode(prefix)) if text == texts[1] else 0
        for index in range(first, len(ids)):
            if scoring == "log_likelihood":
                row = [vocabulary.cls, *ids[:index]]
                expected += log_p(learner, row, index, ids[index], causal=True)
            else:
                row = [vocabulary.cls, *ids, vocabulary.sep]
                row[1 + index] = vocabulary.mask
                expected += log_p(learner, row, index, ids[index])
        assert total == pytest.approx(expected, abs=1e-6) and expected < -1


@torch.no_grad()
def test_masks_are_filled_from_the_state_before(data):
    learner = make_learner(data)
    ((token, share),) = learner.fill_mask("the [MASK] sat", top=1)[0]
    ids = learner.tokenizer.vocabulary
    row = [ids.cls, *learner.tokenizer.encode("the"), ids.mask]
    place, row = len(row) - 2, [*row, *learner.tokenizer.encode("sat"), ids.sep]
    best = max(range(len(ids)), key=lambda it: log_p(learner, row, place, it))
    assert token == ids.display_symbol(ids.symbols[best])
    assert np.log(share) == pytest.approx(log_p(learner, row, place, best), abs=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("arch", ["bert_tiny", "modernbert_tiny"])
def test_texts_are_continued_from_left_to_right(data, arch):
    """Greedy search and beam search equal loops that read each prefix again."""
    learner = make_learner(data, arch)
    vocabulary, prompts = learner.tokenizer.vocabulary, ["the cat", "dogs"]
    special = {vocabulary.pad, vocabulary.cls, vocabulary.mask, vocabulary.sep}
    start = [[vocabulary.cls, *learner.tokenizer.encode(text)] for text in prompts]

    def extend(beams, size):
        found = []
        for score, tokens in beams:
            states = learner.encoder(Inputs(torch.tensor([tokens]), causal=True)).states[0, -1:]
            scores = learner.task.head(states, learner.encoder.token_embedding.weight)[0]
            scores[vocabulary.sep] = -torch.inf
            rows = enumerate(scores.log_softmax(-1).tolist())
            found += [(score + row, [*tokens, i]) for i, row in rows if i not in special]
        return sorted(found, reverse=True)[:size]

    for beam in (1, 3):
        options = {"beam": beam, "max_len_b": 4, "min_len": 4}
        generator = TextGenerator([learner], ContinueConfig(path=["run"], **options))
        for text, tokens in zip(prompts, start, strict=True):
            beams = [(0.0, tokens)]
            for _ in range(4):
                beams = extend(beams, beam)
            [output] = generator.generate([generator.encode_line(text)])
            ids = learner.tokenizer.decode(beams[0][1][1:])
            assert (text + output.best).split() == ids.split()


def test_scores_of_references_are_refused_and_say_why(data):
    with pytest.raises(ToolkitError, match=r"predicts end symbols, which task hybrid does not"):
        TextGenerator([make_learner(data)], ContinueConfig(path=["run"], score_reference=True))


def test_model_card_of_shifted_predictions_reads_them_before_the_mask(data, tmp_path):
    pytest.importorskip("transformers")
    learner = make_learner(data, "gpt_bert_tiny").float()
    paths = tmp_path / "model", tmp_path / "exported"
    learner.save(paths[0])
    assert convert(["export", *map(str, paths), "--classes", "native"]) == 0
    card = (paths[1] / "README.md").read_text()
    assert "fill-mask" not in card and "AutoModelForMaskedLM" in card and "mask - 1" in card


@pytest.mark.parametrize(
    ("arch", "options"),
    [("convbert_tiny", {}), ("taco_tiny", {}), ("deberta_tiny", {"convolution_size": 3})],
)
def test_encoders_that_look_to_the_right_are_refused(arch, options):
    with pytest.raises(ToolkitError, match="requires an encoder that can read from left to right"):
        build_model(arch, vocabulary_size=17, task="hybrid", **options)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["composite_bert_tiny", "gpt_bert_tiny"])
def test_ratio_may_change_and_the_run_resumes_bit_for_bit(tmp_path, resumes_exactly, arch):
    steps = {**HYBRID, "task.causal_ratio": "1@0,0.2@50%", "arch": arch}
    resumes_exactly(3, {**steps, "arch.embedding_width": 16})
    assert load_checkpoint(tmp_path / "cut").task.generation_mode == "fill-mask"


def test_coefficients_follow_the_schedule_of_the_ratio(config):
    training = TrainingRun(config(**HYBRID | {"task.causal_ratio": "1@0,0.25@50%"}), World())
    task, seen = training.trainer.learner.task, []
    training.trainer.fit(
        training.train.loader_for,
        max_update=training.total_updates,
        callbacks=[lambda step: seen.append({name for name, n in step.weights.items() if n})],
    )
    training.close()
    assert seen[0] == {"causal"} and seen[-1] == {"causal", "mntp"}
    assert task.coefficients == {"mntp": 0.75, "causal": 0.25}
