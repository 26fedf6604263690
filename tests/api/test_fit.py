import pytest
import torch

from toolkit import ToolkitError, build_model, load_checkpoint
from toolkit.api.fit import check_dataset, evaluate, fit, preprocess, train
from toolkit.checkpoints.load import read_config
from toolkit.common.arrays import derive_seed
from toolkit.config.load import compose
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.training.trainer import Trainer

TEXTS = ["a lovely film", "a dull film", "lovely music", "dull music"] * 4
LABELS = ["good", "bad", "good", "bad"] * 4
RECIPE = {"max_update": 3, "lr": 1e-3, "batch_size": 4, "precision": "fp32"}


@pytest.fixture
def learner():
    torch.manual_seed(0)
    tokenizer = Tokenizer.train(TEXTS, kind="words")
    return build_model(
        "bert_tiny", tokenizer=tokenizer, task="glue", labels=["bad", "good"], layers=1, width=32
    )


def test_fit_equals_a_run_of_toolkit_train(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(TEXTS))
    preprocess(
        trainpref=str(tmp_path / "text.txt"),
        destdir=str(tmp_path / "data"),
        tokenizer="words",
        workers=1,
    )
    options = {
        "arch": "bert_tiny",
        "arch.layers": 1,
        "task": "mlm",
        "save_dir": str(tmp_path / "run"),
    }
    quiet = {"valid_subset": "", "num_workers": 0}
    train(tmp_path / "data", **{**RECIPE, **options, **quiet})
    stored = load_checkpoint(tmp_path / "run" / "checkpoint_last")
    torch.manual_seed(derive_seed(1))
    learner = build_model("bert_tiny", tokenizer=stored.tokenizer, task="mlm", layers=1)
    losses = fit(learner, learner.open_dataset(tmp_path / "data"), **RECIPE)
    expected = stored.state_dict()
    assert len(losses) == 3 and not learner.training
    assert all(torch.equal(tensor, expected[n]) for n, tensor in learner.state_dict().items())


@pytest.mark.slow
def test_train_resumes_with_the_data_and_the_options_of_the_checkpoint(data, tmp_path):
    small = {"arch": "bert_tiny", "arch.layers": 1, "task": "mlm", "lr": 2e-3}
    quiet = {"valid_subset": "", "num_workers": 0, "save_dir": str(tmp_path)}
    train(data, **small, **quiet, max_epoch=1, max_tokens=1000)
    result = train(save_dir=str(tmp_path), max_update=12)
    run, _ = read_config(tmp_path / "checkpoint_last")
    assert result.updates == 12 and run.training.max_update == 12 and not run.training.max_epoch
    assert run.optimizer.config.lr == 2e-3 and run.data.dirs == [str(data)]
    tuned = compose({"finetune_from": str(tmp_path), "task": "glue"})
    assert tuned.arch == run.arch and tuned.optimizer.config.lr != 2e-3


def test_fitted_classifier_is_evaluated_and_predicts(learner):
    losses = fit(learner, learner.dataset(TEXTS, LABELS), max_epoch=8, lr=4e-3, batch_size=8)
    assert len(losses) == 16 and losses[-1] < losses[0]
    learner.train()
    metrics = evaluate(learner, learner.dataset(TEXTS, LABELS, training=False), batch_size=5)
    assert metrics["accuracy"] == 1.0 and metrics["examples"] == 16 and learner.training
    assert [each.label for each in learner.predict(TEXTS[:2])] == ["good", "bad"]


def test_frozen_parameters_stay_as_they_are(learner):
    learner.encoder.requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in learner.state_dict().items()}
    fit(learner, learner.dataset(TEXTS, LABELS), **RECIPE)
    changed = {
        n for n, tensor in learner.state_dict().items() if not torch.equal(tensor, before[n])
    }
    assert changed and all(name.startswith("task.") for name in changed)


def test_rate_of_a_layer_does_not_depend_on_frozen_ones(learner, monkeypatch):
    rates = []
    monkeypatch.setattr(
        Trainer, "fit", lambda trainer, *args, **kw: rates.append(rates_of(trainer))
    )
    options = {**RECIPE, "optimizer.layerwise_lr_decay": 0.5}
    fit(learner, learner.dataset(TEXTS, LABELS), **options)
    learner.freeze(["layers.0"])
    fit(learner, learner.dataset(TEXTS, LABELS), **options)
    before, after = rates
    assert after.keys() < before.keys() and all(before[n] == rate for n, rate in after.items())


def rates_of(trainer):
    names = {p: name for name, p in trainer.learner.named_parameters()}
    return {names[p]: g["lr"] for g in trainer.optimizer.param_groups for p in g["params"]}


def test_fit_rejects_options_that_it_does_not_read(learner):
    dataset = learner.dataset(TEXTS, LABELS)
    with pytest.raises(ToolkitError, match=r"fit does not read checkpoint.save_dir. Options of"):
        fit(learner, dataset, **RECIPE, save_dir="run")
    with pytest.raises(ToolkitError, match=r"fit does not read arch.layers"):
        fit(learner, dataset, **RECIPE, **{"arch.layers": 3})
    with pytest.raises(ToolkitError, match=r"Set --max-update, --max-epoch or --max-words"):
        fit(learner, dataset, lr=1e-3)
    with pytest.raises(ToolkitError, match=r"one of learner.dataset or .*, but is of type list"):
        check_dataset(TEXTS)
    with pytest.raises(ToolkitError, match=r"batch_size must be at least 1, but is 0"):
        evaluate(learner, dataset, batch_size=0)
