"""Exported models in Transformers' Trainer: accumulated batches give the update of one batch."""

import pytest
import torch
from transformers import Trainer, TrainingArguments

from toolkit.huggingface import to_huggingface
from toolkit.nn.ops.dropout import Dropout

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
