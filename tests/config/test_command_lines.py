"""Command lines of every command: those that give a config, and those that are refused."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from toolkit.cli import toolkit
from toolkit.common import plugins
from toolkit.common.registry import CALLBACKS, REGISTRIES

TABLE = Path(__file__).with_name("command_lines.txt").read_text("utf-8")
RIGHT, WRONG = (
    [line for line in part.splitlines() if line and not line.startswith("#")]
    for part in TABLE.split("# wrong\n")
)
FILES = {
    "one.yaml": "arch: {name: bert_tiny, layers: 3}\ntask: mlm\noptimizer: {lr: 1e-3}\n",
    "two.yaml": "arch: {layers: 5, heads: 2}\ntraining: {max_update: 7}\n",
    "full.yaml": "arch: taco_tiny\ntask: {name: mpm}\ndata: {dirs: [data], max_tokens: 100}\n",
    "odd.yaml": "checkpoint: {save_dir: no}\nlogging: {wandb_project: 010}\n",
    "lists.yaml": "data: {dirs: [data, more], weights: [1, 2.5]}\nsweep: {seeds: [1, 2]}\n",
    "empty.yaml": "",
    "sections.yaml": "training:\ncheckpoint: {}\nlogging: {tensorboard_logdir: null}\n",
    "grid.yaml": "sweep: {grid: ['arch=bert_tiny,taco_tiny']}\n",
    "preprocess.yaml": "trainpref: text.txt\ndestdir: out\nformat: {segment_by: lines}\n",
    "validate.yaml": "valid_subset: test\ntask: {tokens_per_sample: [64, 128]}\n",
    "broken.yaml": "arch: [bert_tiny\n",
    "alias.yaml": "task: &a mlm\ncheckpoint: {save_dir: *a}\n",
    "tags.yaml": "arch: !!python/object/apply:os.system [ls]\n",
    "twice.yaml": "arch: bert_tiny\narch: taco_tiny\n",
    "interpolation.yaml": "arch: bert_tiny\ntask: mlm\ncheckpoint: {save_dir: '${task.name}'}\n",
    "oc_env.yaml": "arch: {name: bert_tiny}\ntask: mlm\ndata: {dirs: ['${oc.env:HOME}']}\n",
    "list.yaml": "- arch\n",
    "scalar.yaml": "arch\n",
    "unknown.yaml": "arch: bert_tiny\ntask: mlm\ntraining: {max_updates: 3}\n",
    "unknown_section.yaml": "arch: bert_tiny\ntask: mlm\ntrainer: {max_update: 3}\n",
    "short.yaml": "arch: bert_tiny\ntask: mlm\nmax_update: 3\n",
    "nested.yaml": "arch: bert_tiny\ntask: mlm\ntraining: {max_update: {a: 3}}\n",
    "null.yaml": "training: {log: null, seed: null}\n",
    "callbacks.yaml": "training: {callbacks: null}\n",
    "typed.yaml": "arch: bert_tiny\ntask: mlm\ntraining: {max_update: many}\n",
    "numbers.yaml": "arch: bert_tiny\ntask: mlm\n3: {4: 5}\n",
    "deep.yaml": "[" * 2000,
    "binary.yaml": "\0\1",
    "plug/parts.py": """
from dataclasses import dataclass

from toolkit import register_arch
from toolkit.common.registry import register_callback
from toolkit.models.bert import BertConfig, bert

@dataclass(frozen=True, kw_only=True)
class GatedConfig(BertConfig):
    gate: float = 1.0

@dataclass(frozen=True, kw_only=True)
class WatchConfig:
    every: int = 1

register_arch("gated_bert", GatedConfig())(lambda config, sizes: bert(config, sizes))

@register_callback("watch", WatchConfig())
def watch(config, context):
    return lambda step: None
""",
    "text.txt": "A text.\n",
    "train.de": "Ein Satz.\n",
    "train.en": "A sentence.\n",
    "a.conllu": "1\tA\n",
    "a.jsonl": "{}\n",
    "metrics.jsonl": "{}\n",
    "hf/config.json": "{}",
    "hf/model.safetensors": "",
    "data/meta.json": "{}",
    "more/meta.json": "{}",
}


def make_files(folder: Path) -> None:
    """Configuration files, a plugin, and folders that look like data and checkpoints."""
    from toolkit.config.load import compose
    from toolkit.config.serialize import to_dict

    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    options = {"arch": "bert_tiny", "task": "mlm", "data.dirs": ["data"], "arch.layers": 1}
    run = to_dict(compose({**options, "max_update": 5, "precision": "bf16", "save_dir": "run"}))
    make_checkpoint(folder / "run", run)
    make_checkpoint(folder / "removed", {**run, "training": {"gone": 3}})
    make_checkpoint(folder / "broken", {"arch": 3})


def make_checkpoint(folder: Path, run: dict[str, object]) -> None:
    from toolkit.checkpoints.save_folder import write_manifest

    (folder / "checkpoint_last").mkdir(parents=True)
    text = json.dumps({"run": run, "sizes": {"tokens": 100}})
    (folder / "checkpoint_last" / "config.json").write_text(text, "utf-8")
    write_manifest(folder / "checkpoint_last", {"update": 5, "epoch": 1})


INFO = {"--help", "--help-all", "-h", "help", "--version", "--list"}


def call(line: str) -> int:
    """The exit code of `toolkit` with these words; it prints the config unless it has to exit."""
    words = shlex.split(line)
    if INFO & {*words} or words[0].startswith("-"):
        return toolkit.main(words)
    flags = [index for index, word in enumerate(words) if word.startswith("-")]
    at = flags[0] if flags else len(words)
    return toolkit.main([*words[:at], "--print-config", *words[at:]])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    make_files(folder := tmp_path_factory.mktemp("command_lines"))
    return folder


@pytest.fixture
def folder(files, monkeypatch):
    monkeypatch.chdir(files)
    monkeypatch.setattr(plugins, "_loaded", {})
    registries = (*REGISTRIES.values(), CALLBACKS)
    before = [registry.list_entries(plugins.PACKAGE) for registry in registries]
    imported = {*sys.modules}
    yield files
    for name in {*sys.modules} - imported:
        if name.startswith(f"{plugins.PACKAGE}."):
            del sys.modules[name]  # so that the next test registers what is in it
    for registry, entries in zip(registries, before, strict=True):
        for entry in registry.list_entries(plugins.PACKAGE):
            if entry not in entries:
                del registry._entries[entry.name]


@pytest.mark.parametrize("line", RIGHT)
def test_command_line_is_read(line, folder, capsys):
    assert call(line) == 0
    out, err = capsys.readouterr()
    assert out and not err


@pytest.mark.parametrize("line", WRONG)
def test_command_line_is_refused_with_one_line(line, folder, capsys):
    assert call(line) == 2
    out, err = capsys.readouterr()
    assert not out and err.count("\n") == 1 and err.startswith("toolkit")
