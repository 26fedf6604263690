"""Store a tiny checkpoint of this version and its predictions for the tests of later versions.

    python tools/keep_release.py

writes tests/fixtures/releases/VERSION: a checkpoint, its data folder (without sentencepiece.model,
which the checkpoint has) and `predictions.safetensors` with input tokens and logits. Run it once
before a release; never change what it wrote.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file

from toolkit import __version__, load_checkpoint, preprocess
from toolkit.config.load import compose
from toolkit.models.interface import Inputs
from toolkit.training.run import run

TARGET = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "releases" / __version__
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "how", "dogs", "run", "far"]
SHAPE = {"arch.layers": 1, "arch.width": 16, "arch.heads": 2, "arch.embedding_width": 8}


def main() -> None:
    if TARGET.exists():
        raise SystemExit(f"{TARGET} exists; what a release wrote never changes.")
    with tempfile.TemporaryDirectory() as temporary:
        os.chdir(temporary)  # so that the checkpoint has no paths of this machine
        make_data()
        train()
        store()
    print(f"{TARGET}: {sum(f.stat().st_size for f in TARGET.rglob('*') if f.is_file()):,} bytes")


def make_data() -> None:
    rng = random.Random(1)
    for name, lines in (("train", 60), ("valid", 12)):
        text = (" ".join(rng.choices(WORDS, k=rng.randint(4, 9))) for _ in range(lines))
        Path(f"{name}.txt").write_text("\n".join(text) + "\n", encoding="utf-8")
    preprocess(
        trainpref="train.txt", validpref="valid.txt", destdir="data", vocab_size=40, workers=1
    )


def train() -> None:
    options = {"data.dirs": ["data"], "data.batch_size": 8, "data.num_workers": 0}
    options |= {"training.max_update": 6, "training.precision": "fp32", "training.device": "cpu"}
    options |= {"optimizer.lr": 0.01, "checkpoint.save_dir": "run", "logging.progress": "lines"}
    run(compose({"arch": "composite_bert_tiny", **SHAPE, "task": "mlm", **options}))


def store() -> None:
    TARGET.mkdir(parents=True)
    source = Path("run", "checkpoint_last").resolve()
    shutil.copytree(source, TARGET / source.name)
    ignored = shutil.ignore_patterns("sentencepiece.model")  # 240 kB that the checkpoint has too
    shutil.copytree("data", TARGET / "data", ignore=ignored)
    learner = load_checkpoint(source)
    tokens = torch.arange(5, 21).view(2, 8)
    padding = torch.zeros(2, 8, dtype=torch.bool)
    padding[1, 5:] = True
    save_file(
        {"tokens": tokens, "padding": padding, "logits": compute_logits(learner, tokens, padding)},
        TARGET / "predictions.safetensors",
    )


@torch.no_grad()
def compute_logits(learner, tokens: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
    """Logits of all positions but padding."""
    states = learner.encoder(Inputs(tokens, padding=padding)).states[~padding]
    return learner.task.head(states, learner.encoder.token_embedding.weight).clone()


if __name__ == "__main__":
    main()
