"""Exports opened in a fresh process by Transformers alone, trained by its Trainer, and imported."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from toolkit import load_checkpoint
from toolkit.cli.convert import main
from toolkit.huggingface import to_huggingface

CASES = {
    "composite_bert_tiny": ("mlm", "AutoModelForMaskedLM"),
    "taco_tiny": ("mpm", "AutoModelForMaskedLM"),
    "convbert_tiny": ("mlm", "AutoModelForMaskedLM"),
    "bert_tiny": ("mlm", "AutoModelForMaskedLM"),
    "conv_san_ud": ("pos_tagging", "AutoModelForTokenClassification"),
    "transformer_tiny": ("translation", "AutoModelForSeq2SeqLM"),
}


def scores(learner, inputs, labels):
    model = to_huggingface(learner).eval()
    more = {"labels": labels} if model.config.is_encoder_decoder else {}
    with torch.no_grad():
        return model(**inputs, **more).logits


@pytest.mark.slow
def test_exports_train_in_transformers_and_come_back(make_learner, hf_inputs, tmp_path):
    inputs = {}
    for arch, (task, auto_class) in CASES.items():
        learner, batch = make_learner(task, arch)
        folder = tmp_path / "models" / arch
        folder.mkdir(parents=True)
        learner.save(folder / "run")
        words = ["export", str(folder / "run"), str(folder / "exported")]
        assert main([*words, "--classes", "toolkit"]) == 0
        given = hf_inputs(batch.inputs)
        given.setdefault("attention_mask", torch.ones_like(given["input_ids"]))
        labels = torch.randint(5, given["input_ids"].shape)
        inputs[arch] = given, labels
        save_file({**given, "labels": labels}, folder / "inputs.safetensors")
        (folder / "auto_class").write_text(auto_class)
    script = Path(__file__).with_name("fresh_process.py")
    command = [sys.executable, str(script), str(tmp_path / "models")]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]
    for arch, (given, labels) in inputs.items():
        folder = tmp_path / "models" / arch
        outputs = load_file(folder / "outputs.safetensors")
        before = scores(load_checkpoint(folder / "run"), given, labels)
        assert torch.equal(outputs["before"], before), arch
        assert main(["import", str(folder / "tuned"), str(folder / "back")]) == 0
        after = scores(load_checkpoint(folder / "back"), given, labels)
        assert torch.equal(outputs["after"], after), arch
        assert not torch.equal(before, after)
