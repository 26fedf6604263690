"""Whole runs: resumed bit for bit, on two ranks, and validated as toolkit-validate does."""

from __future__ import annotations

import json
import shutil
from functools import partial

import numpy as np
import pytest
import torch

from tests.helpers.preprocessing import preprocess_config
from toolkit import load_checkpoint
from toolkit.cli.validate import main as validate
from toolkit.commands.validate import evaluate_checkpoints
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.checkpoints import ValidateConfig
from toolkit.config.load import compose
from toolkit.data.preprocess import preprocess
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.distributed import World
from toolkit.distributed.data_parallel import is_sharded
from toolkit.metrics.translation import corpus_scores
from toolkit.models.interface import Inputs
from toolkit.training.run import TrainingRun, run

SCHEDULES = {
    "task.mask_rate": "0.4:0.2",
    "task.tokens_per_sample": "6@0,12@1epochs",
    "data.batch_size": "4@0,8@1epochs",
    "arch.dropout": "0.3@0,0.1@50%",
    "arch.attention_window": "2@0,4@25%",
    "optimizer.weight_decay": "0.1:0",
    "arch.layers": 2,
}
TOKENS = {"data.max_tokens": "24@0,96@1epochs", "batch_size": None}
POSITIONS = {"task": "mpm", "task.position_rate": "0.5:0.1", "lr": 0.01}
RTD = {"arch": "bert_tiny", "task": "rtd", "lr": 0.01, "mask_rate": 0.3}
SEPARATE = {**RTD, "task.embedding_sharing": "disentangled"}
ADAPTIVE = {"task.masking": "exact", "task.adaptive_interval": 2, "task.mask_rate": 0.3}
R_DROP = {"criterion": "r_drop", "criterion.divergence_weight": 3.0}
HYBRID = {"task": "hybrid", "task.causal_ratio": 0.5, "arch.embedding_width": 16}
FROZEN = {"freeze": ["embeddings", "layers.0"], "arch.layers": 2}
SIX = {"max_update": 6, "lr": 0.01}
PLATEAU = {"lr_scheduler": "plateau", "lr_scheduler.factor": 0.5, "best_metric": "accuracy"}
"""The accuracy never rises at a rate of 1e-7: five plateaus in a row."""
FILL = {"fill_batches": True, "max_tokens": 96, "batch_size": None}
RESUMED = [
    *((at, SCHEDULES) for at in (3, 12)),
    *((7, {"task.masking": masking}) for masking in ("frequency", "pmi")),
    *((3, {"data.curriculum": kind}) for kind in ("length", "rarity")),
    *((at, options) for options in (TOKENS, POSITIONS) for at in (3, 7)),
    *((at, ADAPTIVE) for at in (3, 4)),
    *((3, options) for options in (RTD, SEPARATE)),
    (3, {**R_DROP, "arch.dropout": 0.3}),
    (3, FILL),
    (4, {**FROZEN, "ema_decay": 0.9}),
    (3, {"ema_decay": 0.9, "lr": 0.05, "max_update": 6, "lr_scheduler": "fixed"}),
    (3, {**SIX, "optimizer": "adafactor", "lr_scheduler": "cosine"}),
    (3, {**SIX, "optimizer": "muon", "lr_scheduler": "linear"}),
    (3, {**SIX, **PLATEAU, "lr": 1e-7, "validate_interval_updates": 1}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("at", "options"), RESUMED, ids=str)
def test_run_resumes_bit_for_bit(resumes_exactly, at, options):
    resumes_exactly(at, options)


@pytest.mark.slow
def test_run_resumes_bit_for_bit_within_a_curriculum_by_file(resumes_exactly, tmp_path):
    (tmp_path / "scores").write_text("".join(f"{7 * i % 38}\n" for i in range(38)))
    resumes_exactly(3, {"data.curriculum": str(tmp_path / "scores")})


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        RTD,
        SEPARATE,
        R_DROP,
        FILL,
        SCHEDULES,
        TOKENS,
        POSITIONS,
        {**FROZEN, "lr": 0.01, "training.check_ranks_interval": 1},
        *({**HYBRID, "arch": arch} for arch in ("composite_bert_tiny", "gpt_bert_tiny")),
    ],
    ids=str,
)
def test_two_ranks_equal_one_process(same_on_two_ranks, options):
    same_on_two_ranks(options)


SHAPE = {"width": 16, "heads": 2, "feed_forward_width": 16}
SEQUENCE = {"arch": "transformer_tiny", "arch.encoder_layers": 1, "arch.decoder_layers": 1}
LANGUAGE = {"arch": "transformer_lm_tiny", "arch.layers": 1, "arch.positions": "t5"}
TASKS = {
    "transformer": {"task": "translation", **SEQUENCE},
    "language": {"task": "language_modeling", **LANGUAGE, "task.tokens_per_sample": 16},
}


@pytest.fixture
def writing(parallel, data, tmp_path):
    """Makes the config of a small run of one of these tasks: five updates per epoch."""

    def make(name, **options):
        folder = data if name == "language" else parallel
        return compose(
            {
                **TASKS[name],
                **{f"arch.{key}": value for key, value in SHAPE.items()},
                "data.dirs": [str(folder)],
                "data.batch_size": 8,
                "data.num_workers": 0,
                "training.max_epoch": 2,
                "training.precision": "fp32",
                "criterion.label_smoothing": 0.1,
                "logging.progress": "lines",
                "optimizer.lr": 0.01,
                "checkpoint.save_dir": str(tmp_path / "run"),
                **options,
            }
        )

    return make


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_text_generation_run_resumes_to_the_same_weights(writing, resumes_exactly, name):
    resumes_exactly(3, {}, partial(writing, name))


@pytest.mark.slow
def test_language_models_of_two_ranks_equal_one_process(writing, same_on_two_ranks):
    same_on_two_ranks({"lr": 0.001, "max_epoch": 1}, partial(writing, "language"))


@pytest.mark.slow
def test_translators_of_two_ranks_equal_one_process_and_sharded_ones_generate_nothing(
    writing, same_on_two_ranks
):
    def generated(training):  # ranks generate unequal lengths
        scores, learner = training.validation.latest["valid"], training.trainer.learner
        return [("bleu" in scores) != is_sharded(learner)]

    options = {"lr": 0.001, "max_epoch": 1}
    assert same_on_two_ranks(options, partial(writing, "transformer"), figures=generated)[-1]


@pytest.mark.slow
def test_validation_in_training_equals_toolkit_validate_and_its_file(writing, parallel, tmp_path):
    result = run(writing("transformer", max_epoch=1)).valid["valid"]
    assert {"nll", "ppl", "bleu", "chrf", "accuracy"} <= result.keys()
    files = {name: str(tmp_path / name) for name in ("predictions", "json")}
    config = ValidateConfig(
        dirs=[str(parallel)], path=[str(tmp_path / "run")], precision="fp32", **files
    )
    [again] = evaluate_checkpoints(config).values()
    assert again["valid"] == pytest.approx(result)
    lines = (tmp_path / "predictions").read_text().splitlines()
    true = (parallel.parent / "valid.yy").read_text().splitlines()
    scores = {score.name: score.value for score in corpus_scores(lines, true)}
    assert scores == pytest.approx({name: result[name] for name in scores})
    events = [json.loads(line) for line in (tmp_path / "json").read_text().splitlines()]
    scored = [event for event in events if event["event"] == "score"]
    assert [event["name"] for event in scored] == ["bleu", "chrf"] and "tok:13a" in str(scored)


def test_truncation_is_reported_for_each_split(writing, parallel, tmp_path, capsys):
    short = {"task.tokens_per_sample": 5, "task.overlength": "skip", "task.validation_beam": 0}
    run(writing("transformer", max_update=1, **short))
    lengths = {
        name: [len(line.split()) for line in (parallel.parent / f"{name}.xx").open()]
        for name in ("train", "valid")
    }
    long = {name: sum(length > 4 for length in found) for name, found in lengths.items()}
    assert min(long.values()) > 0
    train = f"{37 - long['train']} in train, {long['train']} with more than 5 tokens skipped"
    valid = f"valid: {long['valid']} with more than 5 tokens truncated"
    assert f"{train}; {valid}\n" in capsys.readouterr().err
    evaluate_checkpoints(ValidateConfig(dirs=[str(parallel)], path=[str(tmp_path / "run")]))
    assert f"run {valid}\n" in capsys.readouterr().out


@pytest.mark.slow
def test_finetune_from_requires_the_same_target_vocabulary(writing, parallel, tmp_path):
    run(writing("transformer", max_update=1))
    text, options = parallel.parent / "train", {"tokenizer": "words", "workers": 1}
    for language, source in (("xx", "xx"), ("yy", "xx")):
        shutil.copy(f"{text}.{source}", tmp_path / f"train.{language}")
    (tmp_path / "train.yy").write_text((tmp_path / "train.yy").read_text().replace("cat", "cow"))
    preprocess(
        preprocess_config(
            trainpref=str(tmp_path / "train"),
            source_lang="xx",
            target_lang="yy",
            srcdict=fairseq_dictionary(parallel, tmp_path),
            destdir=str(tmp_path / "other"),
            **options,
        )
    )
    tuned = {"data.dirs": [str(tmp_path / "other")], "save_dir": str(tmp_path / "tuned")}
    with pytest.raises(
        ToolkitError, match=r"vocabulary of the data differs from that of --finetune-from"
    ):
        run(writing("transformer", valid_subset="", finetune_from=str(tmp_path / "run"), **tuned))


def fairseq_dictionary(folder, where):
    """The words of a folder in fairseq's format."""
    symbols = Tokenizer.load(folder).vocabulary.symbols[4:-1]
    (where / "words.txt").write_text("".join(f"{symbol} 1\n" for symbol in symbols))
    return str(where / "words.txt")


@pytest.mark.slow
def test_predictions_of_a_run_without_translations_name_the_option(writing, tmp_path, capsys):
    run(writing("transformer", **{"training.max_update": 1, "task.validation_beam": 0}))
    words = [str(tmp_path / "run"), "--predictions", str(tmp_path / "out.txt")]
    [folder] = writing("transformer").data.dirs
    assert validate([folder, "--path", *words]) == 2
    assert "Add --task.validation-beam 1." in capsys.readouterr().err
    assert validate([folder, "--path", *words, "--task.validation-beam", "1"]) == 0
    assert (tmp_path / "out.txt").read_text().count("\n") > 1


STILL = {"arch.dropout": 0.0, "arch.attention_dropout": 0.0}


def test_rtd_masks_do_not_depend_on_the_batch(config):
    training = TrainingRun(config(**RTD, **STILL), World())
    learner, criterion = training.trainer.learner.eval(), training.trainer.criterion
    for parameter in learner.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    examples = training.train.examples
    whole, *parts = (
        criterion(learner(examples.collate(np.arange(*some), 2)))
        for some in ((0, 8), (0, 3), (3, 8))
    )
    training.close()
    for name, total in whole.items():
        torch.testing.assert_close(sum(part[name] for part in parts), total, rtol=1e-5, atol=0)


def test_rtd_generator_fills_masks(config, tmp_path):
    run(config(**RTD, max_update=2))
    learner = load_checkpoint(tmp_path / "run")
    generator, tokenizer = learner.task.generator, learner.tokenizer
    words = tokenizer.vocabulary
    ids = [words.cls, *tokenizer.encode("the cat"), words.mask, *tokenizer.encode("on"), words.sep]
    with torch.no_grad():
        states = generator.encoder(Inputs(torch.tensor([ids]))).states[0]
        logits = generator.head(states, learner.encoder.token_embedding.weight)[
            ids.index(words.mask)
        ]
    best = logits.softmax(-1).topk(3)
    (found,) = learner.fill_mask("the cat [MASK] on", top=3)
    assert [token for token, _ in found] == [
        words.symbols[i].lstrip("\u2581") for i in best.indices
    ]
    assert [share for _, share in found] == pytest.approx(best.values.tolist(), rel=1e-4)
