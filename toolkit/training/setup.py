"""The parts of a training run, each made from the config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from toolkit.checkpoints.save_folder import SaveFolder
from toolkit.common.errors import ToolkitError
from toolkit.common.random_hash import seed_of
from toolkit.common.registry import CRITERIA, LR_SCHEDULERS, OPTIMIZERS
from toolkit.config.run import RunConfig
from toolkit.config.serialize import to_dict
from toolkit.data.formats.parallel.tokenizer import ParallelCodec
from toolkit.data.storage.data_folder import DataFolder
from toolkit.distributed import World
from toolkit.models.encoder_decoder import EncoderDecoder
from toolkit.optim.precision import Precision, asked_for, resolve
from toolkit.reporting.progress import Work
from toolkit.reporting.sinks import Console, JsonLines, Sink, Sinks, TensorBoard, WeightsAndBiases
from toolkit.tasks.build import build_learner
from toolkit.tasks.task import Learner
from toolkit.training import resume
from toolkit.training.callbacks.checkpoint_contents import Contents
from toolkit.training.callbacks.checkpointing import Saving
from toolkit.training.callbacks.ema import MovingAverage
from toolkit.training.callbacks.validation import Validation
from toolkit.training.data import Split, sizes_of
from toolkit.training.evaluation import validate
from toolkit.training.parallelize import spread
from toolkit.training.spikes import Spikes
from toolkit.training.step import Figures
from toolkit.training.trainer import Trainer


def make_learner(
    c: RunConfig, folder: DataFolder, *, saved: resume.Saved | None, tell: resume.Tell
) -> Learner:
    """The first weights are the seed's, on every rank and machine."""
    torch.manual_seed(seed_of(c.training.seed))
    learner = build_learner(c.arch, c.task, sizes_of(folder))
    encoder: Any = learner.encoder
    if not saved:
        refuse_one_table(encoder, folder.codec)
    if not saved and hasattr(encoder, "load_word_vectors"):
        encoder.load_word_vectors(folder.word_vectors)
    if c.checkpoint.finetune_from and not saved:
        resume.finetune(c.checkpoint.finetune_from, learner, folder.codec, tell)
    return learner


def refuse_one_table(encoder: Any, codec: Any) -> None:
    """Dictionaries of two languages may be equally large, which the sizes do not tell apart."""
    one = isinstance(encoder, EncoderDecoder) and encoder.target_words is encoder.words
    if not one or not isinstance(codec, ParallelCodec):
        return
    if codec.vocabulary.fingerprint != codec.target.vocabulary.fingerprint:
        raise ToolkitError(
            "arch.share_embeddings must be decoder or none where source and target have "
            "dictionaries of their own, but is all. Choose --arch.share-embeddings decoder, or "
            "preprocess with --joined-dictionary."
        )


def make_trainer(
    c: RunConfig,
    folder: DataFolder,
    world: World,
    *,
    total: int,
    saved: resume.Saved | None,
    tell: resume.Tell,
) -> Trainer:
    precision = precision_of(c, saved, world.device)
    learner = make_learner(c, folder, saved=saved, tell=tell).to(world.device)
    spread(learner, world, c.training, precision)
    optimizer = OPTIMIZERS[c.optimizer.name].build(
        c.optimizer.config, list(learner.named_parameters())
    )
    return Trainer(
        learner,
        CRITERIA[c.criterion.name].build(c.criterion.config),
        optimizer,
        LR_SCHEDULERS[c.lr_scheduler.name].build(c.lr_scheduler.config, total),
        world=world,
        precision=Precision(precision, world.device),
        clip_norm=c.training.clip_norm,
        update_freq=c.training.micro_batches_per_rank(world.size),
        seed=c.training.seed,
        spikes=Spikes(world.device) if c.training.skip_spikes else None,
    )


def precision_of(c: RunConfig, saved: resume.Saved | None, device: torch.device) -> str:
    """What was asked for; where nothing was, what the run began with."""
    asked = asked_for(c.training)
    if not saved or asked != "auto":
        return resolve(asked, device)
    before = str(saved.state["precision"])
    if before == "fp16" and device.type == "cpu":
        raise ToolkitError(
            f"{saved.folder} must go on in its precision unless another is named, but that is "
            f"fp16, which CPUs only emulate. Go on with a GPU, or with --precision bf16."
        )
    return before


def make_sinks(c: RunConfig, console: Console, resumed_at: int) -> Sink:
    folder, project = Path(c.checkpoint.save_dir), c.logging.wandb_project
    sinks: list[Sink] = []
    if project:  # before the log is cut
        sinks.append(WeightsAndBiases(project, folder, to_dict(c), resumed_at=resumed_at))
    sinks += [JsonLines(folder / "metrics.jsonl", resumed_at=resumed_at), console]
    if c.logging.tensorboard_logdir:
        sinks.append(TensorBoard(c.logging.tensorboard_logdir, resumed_at=resumed_at))
    return Sinks(sinks)


def make_average(c: RunConfig, trainer: Trainer) -> MovingAverage | None:
    """The moving average of the weights, where one is asked for."""
    decay, warmup = c.training.ema_decay, c.training.ema_warmup
    return MovingAverage(trainer.learner, decay, warmup=warmup) if decay else None


def make_validation(
    config: RunConfig,
    trainer: Trainer,
    splits: Sequence[Split],
    sink: Sink | None,
    average: MovingAverage | None,
    console: Console | None = None,
    total: int = 0,
) -> Validation:
    c = config.training
    subsets = {split.name: partial(validated, split, trainer, console) for split in splits}
    return Validation(
        trainer,
        subsets,
        sink,
        interval=c.validate_interval_updates,
        last=total,
        patience=c.patience,
        metric=c.best_metric,
        examples=splits[0].examples.fingerprint if splits else "",
        average=average,
    )


def validated(split: Split, trainer: Trainer, console: Console | None) -> Figures:
    """A split's figures by the weights of now; the first rank shows how far it is."""
    examples, world = len(split.examples.lengths), trainer.world
    task = trainer.learner.task
    answers = task.answers(split.examples) if task.answers_in_training else None
    what = f"validating {split.name}", -(-examples // world.size), "examples"
    with console.work(*what) if console else Work(*what, quiet=True) as work:
        return validate(
            trainer.learner,
            trainer.criterion,
            split.loader,
            examples=examples,
            world=world,
            precision=trainer.precision,
            told=work.advance,
            answers=answers,
        )


def make_saving(
    c: RunConfig,
    folder: DataFolder,
    trainer: Trainer,
    observers: Mapping[str, Any],
    *,
    saves: SaveFolder,
    data: Mapping[str, str],
    sink: Sink | None,
    average: MovingAverage | None,
) -> Saving:
    contents = Contents(
        saves,
        trainer,
        observers,
        config=c,
        sizes=sizes_of(folder),
        codec=folder.codec,
        data=data,
        average=average,
    )
    return Saving(
        trainer,
        saves,
        contents.save,
        sink,
        config=c.checkpoint,
        validation=observers["validation"],
    )
