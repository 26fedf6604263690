"""Resume from a checkpoint, or start from the weights of another run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from toolkit.checkpoints import tensor_files
from toolkit.checkpoints.load import (
    EXTRA_FILE,
    MODEL,
    OPTIMIZER,
    STATE,
    check_data_matches_checkpoint,
    check_finite,
    find_checkpoint,
    list_mismatches,
    load_weights,
    read_config,
    weights_file,
)
from toolkit.checkpoints.save_folder import REMEDY, SaveFolder, read_manifest, verify_checkpoint
from toolkit.checkpoints.tensor_files import SEPARATOR, open_tensors, read_tensors
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import name_file
from toolkit.config.sections import RunConfig
from toolkit.config.serialize import Differences, diff_configs, flatten, list_differences, to_dict
from toolkit.config.values import FINETUNE_OPTION
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.distributed import World
from toolkit.tasks.build import load_checkpoint
from toolkit.tasks.learner import Learner
from toolkit.training.callbacks.checkpointing import SavedState, require_state
from toolkit.training.callbacks.validation import ExponentialMovingAverage
from toolkit.training.step import Stateful, TrainingProgress
from toolkit.training.trainer import Trainer

FIXED_OPTIONS = (
    *("arch", "task", "criterion", "training.seed", "training.freeze", "training.bottleneck"),
    *("training.lora_rank", "training.lora_alpha", "training.lora_targets"),
    *(
        "optimizer.name",
        "optimizer.momentum",
        "optimizer.beta1",
        "optimizer.centered",
        "optimizer.bias_correction",
    ),
)
"""Sections and options that a run keeps from its first update to its last."""
START_OPTIONS = ("checkpoint.save_dir", "checkpoint.restore_file")
"""Options that say where a run starts from and writes to, and need not stay the same."""
MISFIT_MESSAGES = {
    "missing": "initialized, since the checkpoint has none",
    "of another shape": "initialized, since the checkpoint's have another shape",
    "unknown": "not used",
}
"""Kind of mismatch -> what --finetune-from does with such weights."""

PrintMessage = Callable[[str], None]


@dataclass(frozen=True)
class ResumePoint:
    """A verified checkpoint to resume from."""

    folder: Path
    state: SavedState
    differences: Differences
    """Options of this run that differ from the checkpoint's."""

    @property
    def changes_task(self) -> bool:
        """Whether this run has another task."""
        return "task.name" in self.differences

    @property
    def progress(self) -> TrainingProgress:
        """The checkpoint's; another task starts with the next epoch."""
        progress = self.state.progress
        if not self.changes_task:
            return progress
        return replace(progress, epoch=progress.latest_epoch + 1, consumed=0)


def find_resume_point(
    config: RunConfig, save_folder: SaveFolder, world: World, print_message: PrintMessage
) -> ResumePoint | None:
    """The checkpoint to resume from, as the main rank finds it; None to start from scratch."""
    path = ""
    if world.is_main:
        asked, folder = config.checkpoint.restore_file, save_folder.path
        chosen = save_folder.choose_restore_file(Path(asked)) if asked else None
        if asked and not chosen:
            print_message(f"ignoring --restore-file {asked}: {folder} has newer checkpoints")
        newest = None if chosen else find_newest_intact(save_folder, print_message)
        path = str(find_checkpoint(chosen, to_resume=True) if chosen else newest or "")
    path = world.broadcast(path)
    if not path:
        return None
    folder, facts = Path(path), read_manifest(Path(path))
    if facts.averaged or facts.converted:
        averaged, converted = facts.averaged, f"a conversion of {facts.converted}"
        kind = f"an average of {len(averaged)}" if averaged else converted
        raise ToolkitError(
            f"Cannot resume from {folder}: it is {kind} and has no optimizer state. Start from its "
            f"weights with --finetune-from."
        )
    return ResumePoint(folder, require_state(folder), compare_options(folder, config))


def find_newest_intact(save_folder: SaveFolder, print_message: PrintMessage) -> Path | None:
    """checkpoint_last, or the newest checkpoint whose files match their digests."""
    problems = []
    for folder in save_folder.resume_candidates():
        try:
            verify_checkpoint(folder)
            return folder
        except ToolkitError as error:
            problems.append(str(error))
            print_message(f"skipped: {error}")
    if problems:
        raise ToolkitError(
            f"{save_folder.path} must hold an intact checkpoint, but all {len(problems)} are "
            f"damaged or incomplete. The newest: {problems[0]} Choose another --save-dir to start "
            f"from scratch, or from intact weights with --finetune-from."
        )
    return None


def compare_options(folder: Path, config: RunConfig) -> Differences:
    """The options that differ from those of a checkpoint, if the run may resume with them.

    Options that an older version lacks count as their defaults; those that only one of two
    components has are left out.
    """
    before, now = (to_dict(run) for run in (read_config(folder)[0], config))
    changed = diff_configs(before, now)
    fixed = [*FIXED_OPTIONS, *([FINETUNE_OPTION] if config.checkpoint.finetune_from else [])]
    if config.checkpoint.new_task and "task.name" in changed:
        fixed.remove("task")
    # if a component is another one, only its name is reported
    names = {f"{option.removesuffix('.name')}.name" for option in fixed} & changed.keys()
    problems = {
        option: values
        for option, values in changed.items()
        if any(f"{option}.".startswith(f"{section}.") for section in fixed)
        and (option in names or f"{option.partition('.')[0]}.name" not in names)
    }
    if problems:
        own = config.checkpoint.save_dir.rstrip("/")
        free = next(name for n in count(2) if not Path(name := f"{own}-{n}").exists())
        raise ToolkitError(
            f"Cannot resume from {folder} with other options: "
            f"{'; '.join(list_differences(problems))}. Restore them, start another run with "
            f"--save-dir {free}, or load only the weights with --finetune-from."
        )
    shared = (flatten(before).keys() & flatten(now).keys()) - {*START_OPTIONS}
    return {path: both for path, both in changed.items() if path in shared}


def check_same_data(
    resume_point: ResumePoint | None, fingerprints: Mapping[str, str], data: DataFolder
) -> None:
    """Check that the examples are the checkpoint's, and within an epoch also their order.

    Fingerprints do not tell source from target; tokenizers do.
    """
    if not resume_point:
        return
    before, progress = resume_point.state.data, resume_point.progress
    if before["examples"] != fingerprints["examples"] and not resume_point.changes_task:
        raise ToolkitError(
            f"Cannot resume from {resume_point.folder} with other data: its examples have the "
            f"fingerprint {before['examples'][:12]}, these {fingerprints['examples'][:12]}. Choose "
            f"another --save-dir, or load only the weights with --finetune-from."
        )
    saved = Tokenizer.load(resume_point.folder)
    check_data_matches_checkpoint(data.tokenizer, data.name, saved, str(resume_point.folder))
    if before["order"] != fingerprints["order"] and progress.consumed:
        raise ToolkitError(
            f"data.max_tokens, data.batch_size and data.weights must stay the same within an "
            f"epoch, but differ from those of {resume_point.folder}, {progress.consumed} "
            f"micro-batches into epoch {progress.epoch}. Restore them, or change them at the end "
            f"of an epoch."
        )


def restore(
    resume_point: ResumePoint,
    trainer: Trainer,
    stateful: Mapping[str, Stateful],
    ema: ExponentialMovingAverage | None = None,
) -> None:
    """Restore weights, optimizer, progress and the state of callbacks.

    A moving average that is new to the run starts at the checkpoint's weights. Those that fit
    another task are loaded before, and its callbacks have no state yet.
    """
    folder, state = resume_point.folder, resume_point.state
    files = tensor_files.list_shards(folder) or [folder / OPTIMIZER]
    saved, trainer.progress = open_tensors(files), resume_point.progress
    if resume_point.changes_task:
        weights, learner = open_tensors([folder / MODEL]), trainer.learner
        shapes = {name: p.shape for name, p in learner.named_parameters()}
        fitting = {name for name, it in weights.items() if shapes.get(name) == it.shape}
        saved = {key: it for key, it in saved.items() if key.split(SEPARATOR)[0] in fitting}
    else:
        load_weights(folder, trainer.learner)
    tensor_files.restore(trainer.optimizer, trainer.learner, saved)
    if trainer.precision.loss_scale and state.loss_scale:
        trainer.precision.loss_scale.restore(state.loss_scale)
    if resume_point.changes_task:
        return
    if ema:
        ema.restore(read_tensors(folder / weights_file(folder)))
    with name_file(folder / STATE, REMEDY):
        for name, each in stateful.items():
            if name in state.callbacks:
                each.restore(state.callbacks[name])


def describe_resume(point: ResumePoint) -> str:
    """Where a run resumes from, and with which other options."""
    done, consumed = point.progress.update, point.progress.consumed
    text = (
        f"resuming from {point.folder}: {done} update{'s' * (done != 1)}, epoch "
        f"{point.progress.epoch}, {consumed} micro-batch{'es' * (consumed != 1)} into it"
    )
    if not point.differences:
        return text
    changes = list_differences(point.differences)
    return "\n  ".join([f"{text}\noptions that differ from the checkpoint:", *changes])


def load_finetune_weights(
    path: str,
    learner: Learner,
    tokenizer: Tokenizer,
    print_message: PrintMessage,
    weights: str = "auto",
) -> None:
    """Load the weights of a checkpoint that fit the learner, and report those that do not."""
    folder = find_checkpoint(Path(path))
    ours, others = tokenizer.vocabularies(), Tokenizer.load(folder).vocabularies()
    shared = ours.keys() & others.keys()
    if any(ours[name].fingerprint != others[name].fingerprint for name in shared):
        raise ToolkitError(
            f"The vocabulary of the data differs from that of --finetune-from {folder}. "
            f"Run toolkit-preprocess with --tokenizer-from {folder}."
        )
    file = folder / weights_file(folder, weights)
    adapted = bool(read_manifest(folder).base)
    saved = load_checkpoint(folder).state_dict() if adapted else read_tensors(file)
    initial = learner.state_dict()
    if (folder / EXTRA_FILE).exists():
        saved |= read_tensors(folder / EXTRA_FILE)
    fitting = {n: t for n, t in saved.items() if n in initial and initial[n].shape == t.shape}
    if not fitting:
        raise ToolkitError(
            f"--finetune-from: none of the {len(saved)} tensors in {folder} fits the model. Choose "
            f"the architecture it was trained with."
        )
    check_finite(file, fitting.items())
    learner.load_state_dict(fitting, strict=False)
    print_message(f"loaded {len(fitting)} of {len(initial)} tensors from {folder}")
    for kind, names in list_mismatches(saved, initial).items():
        print_message(f"{MISFIT_MESSAGES[kind]}: {names}")
