"""Make the parts of a training run from its config."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from toolkit.checkpoints.load import check_data_matches_checkpoint
from toolkit.common.arrays import derive_seed
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import CRITERIA, LR_SCHEDULERS, OPTIMIZERS
from toolkit.config.sections import RunConfig, TrainingConfig
from toolkit.config.serialize import to_dict
from toolkit.criteria.distillation import Distillation, RDrop, find_classes
from toolkit.data.loading.loader import BatchLoader
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.distributed import World
from toolkit.distributed.data_parallel import apply_fsdp
from toolkit.models.encoder_decoder import EncoderDecoder
from toolkit.models.heads import DetectionHead, TiedHead
from toolkit.models.interface import EncoderModel
from toolkit.nn.layers import LayerStack
from toolkit.optim.update import (
    DTYPES,
    Precision,
    SpikeDetector,
    requested_precision,
    resolve_precision,
)
from toolkit.reporting.console import Progress
from toolkit.reporting.sinks import (
    JsonLinesSink,
    MultiSink,
    Sink,
    TensorBoardSink,
    TrainingConsole,
    WandbSink,
)
from toolkit.tasks.build import build_learner, load_checkpoint
from toolkit.tasks.examples import Batch
from toolkit.tasks.learner import Learner
from toolkit.tasks.predictions import Results
from toolkit.training import resume
from toolkit.training.callbacks.validation import ExponentialMovingAverage, Validation, check_metric
from toolkit.training.cuda_graphs import enable_cuda_graphs
from toolkit.training.data import LoadedSplit, TrainingData, to_sizes
from toolkit.training.evaluation import evaluate_model, first_batch, metric_names
from toolkit.training.gradient import gather_failures
from toolkit.training.result import config_digest
from toolkit.training.step import Metrics, OptimizedTask
from toolkit.training.trainer import Trainer


def make_learner(
    c: RunConfig,
    folder: DataFolder,
    *,
    resume_point: resume.ResumePoint | None,
    print_message: resume.PrintMessage,
) -> Learner:
    """A learner whose initial weights depend only on the seed, or on --finetune-from."""
    torch.manual_seed(derive_seed(c.training.seed))
    learner = build_learner(c.arch, c.task, to_sizes(folder))
    if not resume_point:
        check_embedding_sharing(learner.encoder, folder.tokenizer)
        learner.encoder.load_word_vectors(folder.word_vectors)
    into = learner, folder.tokenizer, print_message
    if resume_point and resume_point.changes_task:
        resume.load_finetune_weights(str(resume_point.folder), *into, "trained")
    elif c.checkpoint.finetune_from and not resume_point:
        resume.load_finetune_weights(c.checkpoint.finetune_from, *into)
    if c.training.has_adapters and not c.checkpoint.finetune_from:
        raise ToolkitError(
            "--lora-rank and --bottleneck train changes of a model, which --finetune-from names. "
            "Add it, or leave them out."
        )
    learner.adapt(c.training)
    learner.freeze(c.training.freeze)
    return learner


def check_embedding_sharing(encoder: EncoderModel, tokenizer: Tokenizer) -> None:
    """Two vocabularies of equal size pass the check of sizes, but cannot share embeddings."""
    shared = (
        isinstance(encoder, EncoderDecoder) and encoder.target_embedding is encoder.token_embedding
    )
    if shared and len({v.fingerprint for v in tokenizer.vocabularies().values()}) > 1:
        raise ToolkitError(
            "arch.share_embeddings must be decoder or none if source and target have separate "
            "dictionaries, but is all. Choose --arch.share-embeddings decoder, or preprocess with "
            "--joined-dictionary."
        )


def make_trainer(
    c: RunConfig,
    folder: DataFolder,
    world: World,
    *,
    total_updates: int,
    resume_point: resume.ResumePoint | None,
    print_message: resume.PrintMessage,
) -> Trainer:
    """The trainer of a run, with learner and optimizer restored if it resumes."""
    precision = choose_precision(c, resume_point, world.device)
    learner = make_learner(c, folder, resume_point=resume_point, print_message=print_message).to(
        world.device
    )
    parallelize(learner, world, c.training, precision)
    optimizer = OPTIMIZERS[c.optimizer.name].factory(c.optimizer.config, learner.named_parameters())
    if isinstance(learner.task, OptimizedTask):
        learner.task.on_optimizer(optimizer)
    trainer = Trainer(
        learner,
        CRITERIA[c.criterion.name].factory(c.criterion.config),
        optimizer,
        LR_SCHEDULERS[c.lr_scheduler.name].factory(c.lr_scheduler.config, total_updates),
        world=world,
        precision=Precision.for_training(precision, c.training, world),
        clip_norm=c.training.clip_norm,
        update_freq=c.training.micro_batches_per_rank(world.size),
        seed=c.training.seed,
        spike_detector=SpikeDetector(world.device) if c.training.skip_spikes else None,
    )
    if isinstance(trainer.criterion, Distillation):
        paths = c.criterion.config.teachers
        if not paths:
            raise ToolkitError(
                "criterion distillation requires teachers. Pass --criterion.teachers CHECKPOINT."
            )
        trainer.criterion.teachers = [load_teacher(path, c, folder, world) for path in paths]
    if world.device.type == "cuda":
        enable_cuda_graphs(trainer, c.training, print_message, filled=c.data.fill_batches)
    return trainer


def load_teacher(path: str, c: RunConfig, folder: DataFolder, world: World) -> Learner:
    """A teacher in evaluation mode; it must predict the same classes as the model of the run."""
    teacher = load_checkpoint(path)
    check_data_matches_checkpoint(folder.tokenizer, folder.name, teacher.tokenizer, path)
    name = teacher.require_origin().task.name
    if name != c.task.name or vars(c.task.config).get("adaptive_interval"):
        raise ToolkitError(
            f"criterion.teachers must be trained with the task of this run, {c.task.name} without "
            f"task.adaptive_interval, but {path} was trained with {name}. Choose other teachers."
        )
    return teacher.to(world.device).eval()


@torch.no_grad()
def check_criterion(c: RunConfig, trainer: Trainer, data: TrainingData) -> None:
    """Raise unless the criterion can compare the predictions for an example with those of teachers,
    which must read all examples, or of a second pass.
    """
    criterion, learner = trainer.criterion, trainer.learner.eval()
    if not isinstance(criterion, Distillation | RDrop):
        return
    batch = first_batch(learner, data.loader_for(1))

    def describe_classes(model: Learner) -> str:
        with trainer.precision.autocast():
            found = find_classes(model(batch), c.criterion.name).items()
        return ", ".join(f"{name} {it.logits.shape[-1]:,}" for name, it in found)

    own = describe_classes(learner)
    if not isinstance(criterion, Distillation):
        return
    for path, teacher in zip(c.criterion.config.teachers, criterion.teachers, strict=True):
        data.check(teacher.encoder, path)
        if (classes := describe_classes(teacher)) != own:
            raise ToolkitError(
                f"criterion.teachers must predict the classes of this run, {own}, but those of "
                f"{path} are {classes}. Choose teachers with the same options of the task."
            )


def choose_precision(
    c: RunConfig, resume_point: resume.ResumePoint | None, device: torch.device
) -> str:
    """The precision requested; by default that of the checkpoint, or of the hardware."""
    requested = requested_precision(c.training)
    if not resume_point or requested != "auto":
        return resolve_precision(requested, device)
    saved = resume_point.state.precision
    if saved == "fp16" and device.type == "cpu":
        raise ToolkitError(
            f"{resume_point.folder} was trained in fp16, which CPUs only emulate. Resume on a "
            f"GPU, or with --precision bf16."
        )
    return saved


def check_same_on_all_ranks(c: RunConfig, fingerprints: Mapping[str, str], world: World) -> None:
    """Raise if another rank has other options or other data."""
    mine = config_digest({"run": to_dict(c), **fingerprints})
    others = [rank for rank, digest in enumerate(world.all_gather(mine)) if digest != mine]
    if others:
        raise ToolkitError(
            f"all ranks must have the same options and data, but those of rank {world.rank} differ "
            f"from those of {others}. Start all with one command line, on copies of one data "
            f"folder."
        )


def make_sinks(
    c: RunConfig, world: World, update: int, total_updates: int, more: Sequence[Sink] = ()
) -> tuple[TrainingConsole | None, Sink | None]:
    """The main rank's console and, with it, `more` and all sinks that the options choose."""
    if not world.is_main:
        return None, None
    console = TrainingConsole(c.logging.progress, total_updates=total_updates)
    folder, project = Path(c.checkpoint.save_dir), c.logging.wandb_project
    sinks: list[Sink] = []
    if project:  # before the log is cut
        sinks.append(WandbSink(project, folder, to_dict(c), resumed_at=update))
    sinks += [JsonLinesSink(folder / "metrics.jsonl", resumed_at=update), console]
    if c.logging.tensorboard_logdir:
        sinks.append(TensorBoardSink(c.logging.tensorboard_logdir, resumed_at=update))
    return console, MultiSink([*sinks, *more])


def make_validation(
    config: RunConfig,
    trainer: Trainer,
    splits: Sequence[LoadedSplit],
    sink: Sink | None,
    console: TrainingConsole | None,
    total_updates: int,
) -> Validation:
    """The validation of a run on these splits, by the moving average if one is configured."""
    c, ema = config.training, None
    if splits and c.best_metric != "loss":
        parts = trainer.learner, trainer.criterion, splits[0].loader, trainer.precision
        check_metric(c.best_metric, metric_names(*parts, make_results(splits[0], trainer)))
    if c.ema_decay:
        ema = ExponentialMovingAverage(trainer.learner, c.ema_decay, warmup=c.ema_warmup)
    return Validation(
        trainer,
        {split.name: partial(evaluate_split, split, trainer, console) for split in splits},
        sink,
        interval=c.validate_interval_updates,
        last=total_updates,
        patience=c.patience,
        metric=c.best_metric,
        examples=splits[0].examples.fingerprint if splits else "",
        ema=ema,
    )


def make_results(split: LoadedSplit, trainer: Trainer) -> Results[Any, Any] | None:
    """The predictions that validation collects, if the task needs them for its metrics."""
    task = trainer.learner.task
    return task.results(split.examples) if task.collects_in_training else None


def evaluate_split(
    split: LoadedSplit, trainer: Trainer, console: TrainingConsole | None
) -> Metrics:
    """The metrics of a split with the current weights, with a progress bar on the main rank."""
    examples, world = len(split.examples.lengths), trainer.world
    bar = f"validating {split.name}", -(-examples // world.size), "examples"
    with console.progress(*bar) if console else Progress(*bar, quiet=True) as progress:
        return evaluate_model(
            trainer.learner,
            trainer.criterion,
            split.loader,
            examples=examples,
            world=world,
            precision=trainer.precision,
            on_progress=progress.advance,
            results=make_results(split, trainer),
        )


MAX_GRAPHS = 64
"""Graphs that Dynamo may make of one function. All layers of a class share one: they differ in what
they select and pass on, each in training and evaluation, with and without padding."""


def parallelize(learner: Learner, world: World, c: TrainingConfig, precision: str) -> Learner:
    """The learner with the parallelism of the config; make the optimizer from it afterwards."""
    stacks = [module for module in learner.modules() if isinstance(module, LayerStack)]
    layers = [layer for stack in stacks for layer in stack]
    for stack in stacks:
        stack.checkpoint_activations = c.checkpoint_activations
    for encoder in learner.modules():
        if isinstance(encoder, EncoderModel):
            encoder.uses_packing = encoder.uses_packing and c.packing
    if c.compile:
        compile_parts(learner, world.device)
    if c.sharding == "full":
        apply_fsdp(learner, layers, world, DTYPES.get(precision))
    return learner


def compile_parts(learner: Learner, device: torch.device) -> None:
    """Compile layers and heads in place, each for all shapes; parameters keep their names.

    On a CPU they draw the same random numbers as others; on a GPU dropout would be a kernel then.
    """
    import torch._dynamo  # slow to import
    import torch.fx.experimental._config

    torch._dynamo.config.recompile_limit = MAX_GRAPHS
    torch._dynamo.config.specialize_float = True  # rates of dropout are not sizes
    torch.fx.experimental._config.use_duck_shape = False  # a length that equals a width may change
    warnings.filterwarnings("ignore", "Dynamo detected a call to a `functools.lru_cache`")
    heads = [module for module in learner.modules() if isinstance(module, TiedHead | DetectionHead)]
    stacks = [module for module in learner.modules() if isinstance(module, LayerStack)]
    for part in (*(layer for stack in stacks for layer in stack), *heads):
        part.compile(dynamic=True, options={"fallback_random": device.type == "cpu"})


def probe(trainer: Trainer, loader: BatchLoader[Batch]) -> None:
    """Run forward and backward on the epoch's largest batches, then discard the gradients."""
    accumulator, device = trainer.accumulator, trainer.world.device
    epoch, reserved = trainer.progress.epoch, list[torch.Tensor]()
    if device.type != "cpu" and not trainer.optimizer.state:  # for two moments of each parameter
        reserved = [torch.empty_like(p) for p in trainer.parameters for _ in range(2)]
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        for batch in loader.largest_batches(epoch):
            weights = {name: max(1.0, weight) for name, weight in batch.weights.items()}
            _, failure = accumulator.try_accumulate([(batch, epoch)], weights)
            failures = gather_failures(failure, accumulator)
            accumulator.discard()
            if failures:
                raise ToolkitError(
                    f"the largest batch must fit into memory, but {failures[0]}. Lower "
                    f"--max-tokens or --batch-size, and raise --update-freq instead; or start "
                    f"with --training.memory-probe never: batches that do not fit are then split."
                )
    del reserved
