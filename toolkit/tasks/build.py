"""Build a learner from names and configs, or load that of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import overload

from toolkit.checkpoints.load import (
    check_finite,
    find_checkpoint,
    load_weights,
    read_config,
    weights_file,
)
from toolkit.checkpoints.save_folder import read_manifest
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES, TASKS
from toolkit.config.sections import ComponentConfig
from toolkit.data.formats.classification.split import ClassificationTokenizer, Labels
from toolkit.data.tokenizers.tokenizer import Tokenizer, unwrap_tokenizer
from toolkit.models.interface import EncoderModel, Sizes
from toolkit.nn.adapters import merge_low_rank
from toolkit.tasks.learner import Learner, Origin
from toolkit.tasks.task import EncoderFactory, check_architecture, override_config


@overload
def build_model(
    name: str,
    *,
    tokenizer: Tokenizer | None = None,
    vocabulary_size: int | None = None,
    sizes: Mapping[str, int] | None = None,
    task: None = None,
    task_options: None = None,
    labels: None = None,
    **overrides: object,
) -> EncoderModel: ...
@overload
def build_model(
    name: str,
    *,
    tokenizer: Tokenizer | None = None,
    vocabulary_size: int | None = None,
    sizes: Mapping[str, int] | None = None,
    task: str,
    task_options: Mapping[str, object] | None = None,
    labels: Sequence[str] | Labels | None = None,
    **overrides: object,
) -> Learner: ...
def build_model(
    name: str,
    *,
    tokenizer: Tokenizer | None = None,
    vocabulary_size: int | None = None,
    sizes: Mapping[str, int] | None = None,
    task: str | None = None,
    task_options: Mapping[str, object] | None = None,
    labels: Sequence[str] | Labels | None = None,
    **overrides: object,
) -> EncoderModel | Learner:
    """The encoder of a registered architecture, or with `task` the learner with that task's heads.

    `name` is the name of the architecture, as `toolkit-train --list archs` shows it.

    The sizes that the data decides are those of the `tokenizer`, which a learner keeps. `sizes` are
    added to them, as `tokenizer.sizes` gives them: `tokens`, and what else its format has, such as
    `characters`, `tags`, `targets` or `labels`. `vocabulary_size` is short for `tokens`. Keyword
    overrides are fields of the architecture's config, `task_options` those of the task's. Task glue
    reads the classes of single texts from `labels`; `Labels` describes pairs and numbers too.
    Initial weights are drawn from torch's default generator: call torch.manual_seed first to
    reproduce them.
    """
    arch = ComponentConfig(
        name, override_config(ARCHITECTURES[name].config, overrides, f"arch {name!r}")
    )
    if not isinstance(tokenizer, Tokenizer | None):
        raise ToolkitError(
            f"tokenizer must be a Tokenizer, but is {tokenizer!r}. Train one with Tokenizer.train, "
            f"or read one with Tokenizer.load."
        )
    if labels is not None:
        if tokenizer is None or task is None:
            raise ToolkitError("labels require a tokenizer and a task, such as task='glue'.")
        tokenizer = add_labels(tokenizer, labels)
    counts = Sizes({**(tokenizer.sizes if tokenizer else {}), **(sizes or {})})
    if vocabulary_size is not None:
        counts["tokens"] = vocabulary_size
    if not counts["tokens"]:
        raise ToolkitError(
            "build_model requires a tokenizer, vocabulary_size, or sizes with tokens."
        )
    if task is None:
        return EncoderFactory(arch, counts)()
    config = override_config(TASKS[task].config, task_options or {}, f"task {task!r}")
    learner = build_learner(arch, ComponentConfig(task, config), counts)
    if tokenizer is not None:
        learner.tokenizer = tokenizer
    return learner


def add_labels(tokenizer: Tokenizer, labels: Sequence[str] | Labels) -> ClassificationTokenizer:
    """The tokenizer with these labels in place of others."""
    if isinstance(labels, str) or not isinstance(labels, Sequence | Labels):
        raise ToolkitError(f"labels must be a list of classes or Labels, but is {labels!r}.")
    if not isinstance(labels, Labels):
        labels = Labels.of_classes(labels)
    return ClassificationTokenizer(unwrap_tokenizer(tokenizer), labels)


def build_learner(arch: ComponentConfig, task: ComponentConfig, sizes: Sizes) -> Learner:
    """An encoder with a task's heads; raises a ToolkitError if they do not fit together."""
    make_encoder = EncoderFactory(arch, sizes)
    encoder, build = make_encoder(), TASKS[task.name].factory
    check_architecture(encoder, task.name, build.architecture_kind)
    learner = Learner(encoder, build(task.config, encoder, make_encoder))
    learner.origin = Origin(arch, task, sizes)
    return learner


def load_checkpoint(path: str | Path, *, weights: str = "auto") -> Learner:
    """The learner of a checkpoint, or of a save folder's best one, in evaluation mode.

    It has its tokenizer; no data folder is needed. `weights` is auto, trained or average: auto is
    the moving average if the run has one, as in its validation.
    """
    return load_with_task(Path(path), None, weights=weights)


def load_with_task(path: Path, task: ComponentConfig | None, *, weights: str = "auto") -> Learner:
    """`load_checkpoint` with other options of the run's task, on which no weights depend."""
    folder = find_checkpoint(path)
    run, sizes = read_config(folder)
    run = replace(run, task=task or run.task)
    learner = build_learner(run.arch, run.task, sizes)
    learner.metadata = read_manifest(folder).metadata
    learner.adapt(run.training)
    load_weights(folder, learner, file=(file := weights_file(folder, weights)))
    check_finite(folder / file, learner.named_parameters())
    if run.training.has_adapters:
        merge_low_rank(learner.requires_grad_())
        run = replace(run, training=replace(run.training, lora_rank=0))
    learner.origin = Origin(run.arch, run.task, sizes, run)
    learner.tokenizer = Tokenizer.load(folder)
    return learner.eval()
