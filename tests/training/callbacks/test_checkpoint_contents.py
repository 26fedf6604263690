import math

from toolkit.common import json_files
from toolkit.distributed import World
from toolkit.training.callbacks.checkpointing import require_state
from toolkit.training.run import TrainingRun, run
from toolkit.training.step import TrainingProgress


def test_checkpoint_has_all_files_to_resume_and_to_use_it(config, tmp_path):
    run(config(max_update=3, lr=0.01))
    folder = tmp_path / "run" / "checkpoint_last"
    names = {
        "tokenizer_config.json",
        "config.json",
        "dict.txt",
        "manifest.json",
        "model.safetensors",
    }
    names |= {"optimizer.safetensors", "sentencepiece.model", "state.json"}
    assert {path.name for path in folder.iterdir()} == names
    saved = json_files.loads((folder / "config.json").read_text())
    assert saved["run"]["optimizer"]["lr"] == 0.01 and saved["plugins"] == []
    progress = TrainingProgress(update=3, epoch=1, consumed=3, words=289)
    assert require_state(folder).progress == progress


def test_checkpoint_state_keeps_non_finite_numbers(config, tmp_path):
    first = TrainingRun(config(), World())
    first.validation.best = {"metric": "loss", "value": math.inf, "update": 0, "valid": {}}
    first.checkpointer.save(0, 1, ["end"])
    assert TrainingRun(config(), World()).validation.best["value"] == math.inf
