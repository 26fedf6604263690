"""Complete runs of translation and language_modeling: resumed, accumulated, on two ranks."""

from __future__ import annotations

import json
import shutil
from functools import partial

import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.cli.validate import main as validate
from toolkit.commands.validate import evaluate_checkpoints
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.checkpoints import ValidateConfig
from toolkit.config.load import compose
from toolkit.data.preprocess import preprocess
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.distributed.data_parallel import is_sharded
from toolkit.metrics.translation import corpus_scores
from toolkit.training.run import run

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
