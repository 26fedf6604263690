"""The sections of a run that are not components, and options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from toolkit.common.errors import ToolkitError
from toolkit.common.files import check_distinct_files
from toolkit.common.registry import HasTermOptions
from toolkit.config.declared import (
    ADVANCED,
    MULTI_WORD,
    Above,
    Limit,
    NonNegativeFloat,
    NonNegativeInt,
    Options,
    PositiveFloat,
    PositiveInt,
    Processes,
    Rate,
    Seconds,
    Size,
    Tokens,
    to_flag,
)
from toolkit.config.schedules import ValueSchedule

Device = Literal["auto", "cpu", "cuda", "mps", "xpu"]
Precision = Literal["auto", "fp32", "tf32", "bf16", "fp16"]
Weights = Literal["auto", "trained", "average"]
BleuTokenizer = Literal["auto", "13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none"]
Scoring = Literal[
    "auto", "pseudo_log_likelihood", "within_word_left_to_right", "left_to_right", "log_likelihood"
]


@dataclass(frozen=True, kw_only=True)
class OutputOptions(Options, title="output"):
    """Options of every command that reports results."""

    json: str | None = None
    """File to write results to as JSON lines; - for standard output, which then holds nothing
    else."""

    def __post_init__(self) -> None:
        super().__post_init__()
        names = ("input", "json", "results_path", "predictions", "output")
        check_distinct_files({to_flag(it): getattr(self, it, None) for it in names})


@dataclass(frozen=True, kw_only=True)
class DeviceOptions(Options, title="device and precision"):
    """Options of every command that runs a model."""

    device: Device = "auto"
    """Device to compute on. auto: cuda if there is a GPU, else cpu. mps (Apple) and xpu (Intel) are
    untested."""


@dataclass(frozen=True, kw_only=True)
class PrecisionOptions(DeviceOptions, title="device and precision"):
    """Options of every command that chooses a device and a precision."""

    precision: Precision = "auto"
    """Floating-point format. bf16, fp16: mixed precision; tf32: TensorFloat-32 for matrix products
    and convolutions on GPUs; auto: bf16 if the hardware is fast at it, else fp32."""


@dataclass(frozen=True, kw_only=True)
class BatchOptions(Options, title="batches"):
    """Limits of a batch."""

    max_tokens: Tokens | None = None
    """Maximum number of tokens per batch, including padding."""
    batch_size: Size | None = None
    """Maximum number of examples per batch. Without either limit: 32, or 16,384 tokens if
    evaluating on a GPU."""


@dataclass(frozen=True, kw_only=True)
class WeightsOptions(Options, title="checkpoint"):
    """Choice between the weights of a checkpoint and their moving average."""

    weights: Weights = "auto"
    """Weights to use. trained: the weights themselves; average: their moving average
    (--training.ema-decay); auto: the average if the run kept one."""


WORD_COUNT = re.compile(r"(\d+(?:\.\d+)?)([kKmMbB]?)")
THOUSANDS = ("", "k", "m", "b")
LOG_WORDS = [step * 10**power for power in range(3, 15) for step in (1, 2, 5)]


def parse_words(option: str, text: str) -> list[int]:
    """The numbers of words in 1M,2M,...,10M, where dots stand for equal steps; or LOG_WORDS."""
    counts, parts = list[int](), [part.strip() for part in text.split(",")]
    for index, part in enumerate([] if text == "log" else parts):
        if part == "..." and len(counts) > 1 and index + 1 < len(parts):
            continue
        match = WORD_COUNT.fullmatch(part)
        count = round(float(match[1]) * 1000 ** THOUSANDS.index(match[2].lower())) if match else 0
        if index and parts[index - 1] == "..." and count > counts[-1]:
            step, gap = counts[-1] - counts[-2], count - counts[-1]
            counts += (
                range(counts[-1] + step, count, step)
                if gap % step == 0 and gap < 10_000 * step
                else [count]
            )
        if count <= max(counts, default=0):
            raise ToolkitError(
                f"{option} must be rising numbers of words, as in 1M,2M,...,10M,20M,...,100M, but "
                f"is {text!r}: {part!r} does not follow those before it."
            )
        counts.append(count)
    return counts or LOG_WORDS


@dataclass(frozen=True, kw_only=True)
class DataConfig(
    BatchOptions,
    section="data",
    titles={"dirs": "data", "curriculum": "curriculum", "max_tokens_valid": "batches"},
):
    """The section `data`: corpora, limits of training and validation batches, and their order."""

    dirs: list[str] = field(default_factory=list, metadata=MULTI_WORD)
    """Data folders written by toolkit-preprocess or fairseq-preprocess. Several are read as one
    corpus. Separated by colons, as in a:b:c, they are shards of one corpus: each epoch reads the
    next one."""
    weights: list[Annotated[float, Above(0), Limit(10_000)]] = field(
        default_factory=list, metadata=ADVANCED
    )
    """How often an epoch visits each corpus. 2,0.5: twice the first, a random half of the second.
    Default: once each."""
    source_lang: str = field(default="", metadata=ADVANCED)
    """Source language, for data of fairseq-preprocess: to select one of several language pairs, or
    to translate a pair in the other direction than its files are named."""
    target_lang: str = field(default="", metadata=ADVANCED)
    """Target language, with --source-lang."""
    train_subset: str = field(default="train", metadata=ADVANCED)
    """Split to train on."""
    valid_subset: str = "valid"
    """Splits to validate on, with commas. Empty: none."""
    curriculum: str = field(default="", metadata=ADVANCED)
    """Sort the batches of the first epochs from easy to difficult. length: by tokens; rarity: by
    the sum of -log frequency of the tokens (Platanios et al. 2019), for tasks on plain text; or a
    file with a number for each example of the training split, in order, one per line."""
    curriculum_epochs: PositiveInt = field(default=1, metadata=ADVANCED)
    """Number of epochs that --data.curriculum sorts; later ones are shuffled."""
    max_tokens_valid: Tokens | None = field(default=None, metadata=ADVANCED)
    """Maximum number of tokens per validation batch, including padding. Without this and
    --batch-size-valid: 16,384 on a GPU, and as in training on a CPU. Batches that do not fit into
    memory are halved."""
    batch_size_valid: Size | None = field(default=None, metadata=ADVANCED)
    """Maximum number of examples per validation batch."""
    fill_batches: bool = field(default=False, metadata=ADVANCED)
    """Training batches of one shape: sentences of all lengths with exactly --max-tokens tokens
    without padding, a few of them filler. On a GPU one CUDA graph then covers all updates of an
    encoder that reads packed sentences, such as bert and composite_bert with mlm."""
    evaluation_seed: int = field(default=0, metadata=ADVANCED)
    """Seed of the randomness in validation, such as masking. It does not depend on the training
    seed, so that runs with different seeds are evaluated on the same examples."""
    num_workers: Processes = 1
    """Processes that prepare batches (0: the main process)."""
    timeout_seconds: NonNegativeInt = field(default=600, metadata=ADVANCED)
    """Maximum time to wait for a batch from a worker before the run ends with an error (0: no
    limit)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fill_batches and (self.max_tokens is None or self.batch_size is not None):
            raise ToolkitError(
                "data.fill_batches requires --max-tokens, and no --batch-size: batches are filled "
                "to a number of tokens."
            )
        if self.fill_batches and self.curriculum:
            raise ToolkitError(
                "data.curriculum cannot be combined with data.fill_batches, whose batches have "
                "examples of all lengths. Leave one out."
            )
        if self.weights and len(self.weights) != len(self.dirs):
            raise ToolkitError(
                f"data.weights must be one for each corpus, but there are {len(self.weights)} for "
                f"{len(self.dirs)}. Shards of one corpus (a:b) share one weight."
            )
        if bool(self.source_lang) != bool(self.target_lang):
            given, other = ("source", "target") if self.source_lang else ("target", "source")
            raise ToolkitError(f"--{given}-lang requires --{other}-lang.")

    @property
    def languages(self) -> tuple[str, str] | None:
        """Source and target language, if the run names them."""
        return (self.source_lang, self.target_lang) if self.source_lang else None


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(
    PrecisionOptions,
    section="training",
    titles={
        "max_update": "when to stop",
        "update_freq": "updates",
        "lora_rank": "adapters",
        "fp16": "device and precision",
        "validate_interval_updates": "validation",
        "skip_spikes": "failures",
        "callbacks": "callbacks of plugins",
    },
):
    """The section `training`.

    Adapters are trained in place of an encoder's weights: low-rank changes (LoRA) and bottlenecks.
    """

    max_update: NonNegativeInt | None = None
    """Stop after N updates. This, --max-epoch or --max-words is required."""
    max_epoch: NonNegativeInt | None = None
    """Stop after N epochs. This, --max-update or --max-words is required."""
    max_words: str | None = None
    """Stop after the update that reaches this number of words of the text, such as 100M. Words are
    separated by spaces, and counted by toolkit-preprocess."""
    stop_time_hours: NonNegativeFloat = field(default=0.0, metadata=ADVANCED)
    """Stop with a checkpoint after this many hours, including those before resuming (0: never)."""
    stop_min_lr: NonNegativeFloat = field(default=0.0, metadata=ADVANCED)
    """Stop when the learning rate falls to this (0: never)."""
    patience: NonNegativeInt = 0
    """Early stopping: stop after this many consecutive validations without improvement (0:
    never)."""
    update_freq: PositiveInt = 1
    """Gradient accumulation: micro-batches per update on each rank."""
    micro_batches_per_update: PositiveInt | None = field(default=None, metadata=ADVANCED)
    """Micro-batches per update over all ranks, instead of --update-freq: the same run on any number
    of ranks that divides it."""
    clip_norm: NonNegativeFloat = 1.0
    """Gradient clipping: maximum gradient norm; larger gradients are scaled down to it (0: off)."""
    seed: int = 1
    """Random seed of weights, data order, masking, dropout."""
    freeze: list[str] = field(default_factory=list)
    """Modules of the encoder that are not trained and have no dropout, as in embeddings,layers.0-5.
    encoder: all of it (linear probe)."""
    ema_decay: Rate = 0.0
    """Decay of an exponential moving average (EMA) of the weights, such as 0.999, which is then
    validated and used in place of the weights (0: none)."""
    ema_warmup: bool = field(default=True, metadata=ADVANCED)
    """Raise --ema-decay as (1 + n) / (10 + n) over the updates n, to forget the initial weights
    sooner."""
    lora_rank: NonNegativeInt = 0
    """LoRA: rank of trained changes of the encoder's linear maps, whose weights stay as
    --finetune-from has them. Checkpoints hold the changes and the heads only (0: none)."""
    lora_alpha: PositiveFloat = field(default=16.0, metadata=ADVANCED)
    """Factor of the changes of --lora-rank, which are also divided by the rank."""
    lora_targets: list[Literal["query", "key", "value", "output", "feed_forward"]] = field(
        default_factory=lambda: ["query", "value"], metadata=ADVANCED
    )
    """Linear maps that --lora-rank changes."""
    bottleneck: NonNegativeInt = field(default=0, metadata=ADVANCED)
    """Bottleneck adapters: inner width of a small network after each sublayer. Only these and the
    heads are trained, and saved, as with --lora-rank (0: none)."""
    fp16: bool = field(default=False, metadata=ADVANCED)
    """Short for --precision fp16."""
    bf16: bool = field(default=False, metadata=ADVANCED)
    """Short for --precision bf16."""
    sharding: Literal["none", "full"] = "none"
    """Distributed training. none: every rank keeps the whole model (DDP); full: parameters,
    gradients and optimizer states are sharded over the ranks (FSDP2). Needs torchrun."""
    checkpoint_activations: bool = False
    """Activation checkpointing, also called gradient checkpointing: recompute each layer in the
    backward pass to save memory."""
    compile: bool = False
    """Compile with torch.compile. The first updates are slow."""
    packing: bool = field(default=True, metadata=ADVANCED)
    """On a GPU, encode sentences without padding and with attention in one Triton kernel, if the
    architecture allows it."""
    cuda_graph: Literal["auto", "off"] = field(default="auto", metadata=ADVANCED)
    """CUDA graphs. auto: on one GPU, record the kernels of each batch shape that repeats, and
    launch them together; not with modules of plugins, unless they set allows_cuda_graphs."""
    validate_interval_updates: NonNegativeInt = 0
    """Also validate every N updates, not only after each epoch."""
    best_metric: str = "loss"
    """Metric of the first validation split that selects the best checkpoint."""
    skip_spikes: bool = field(default=False, metadata=ADVANCED)
    """Skip an update if its loss or gradient norm is more than 6 standard deviations above the mean
    of the last 128 updates. A non-finite loss or gradient norm is always skipped."""
    check_ranks_interval: NonNegativeInt = field(default=100, metadata=ADVANCED)
    """Compare the parameters and gradient norms of all ranks every N updates (0: never)."""
    memory_probe: Literal["auto", "always", "never"] = field(default="auto", metadata=ADVANCED)
    """Try the largest batch before training, so that running out of memory shows immediately. auto:
    only on a GPU."""
    timeout_seconds: Seconds = field(default=1800.0, metadata=ADVANCED)
    """Abort all ranks if one waits longer than this for another, and name the stalled rank."""
    callbacks: list[str] = field(default_factory=list)
    """Names of callbacks of --user-dir folders, in the order of their calls. Their options are
    --callback.NAME.OPTION."""

    def __post_init__(self) -> None:
        super().__post_init__()
        flags = {"fp16": self.fp16, "bf16": self.bf16, self.precision: self.precision != "auto"}
        named = [precision for precision, is_named in flags.items() if is_named]
        if len(named) > 1:
            raise ToolkitError(f"--precision must be one, but is {' and '.join(named)}.")
        _ = self.word_limit

    @property
    def has_adapters(self) -> bool:
        """Whether there are any."""
        return bool(self.lora_rank or self.bottleneck)

    @property
    def word_limit(self) -> int | None:
        """`max_words` as a number."""
        words = self.max_words
        return None if words is None else parse_words("training.max_words", words)[-1]

    def micro_batches_per_rank(self, ranks: int) -> int:
        """Micro-batches that each rank accumulates for one update."""
        if self.micro_batches_per_update is None:
            return self.update_freq
        total = self.micro_batches_per_update
        if total % ranks:
            possible = [n for n in range(1, min(total, 1024) + 1) if total % n == 0]
            raise ToolkitError(
                f"training.micro_batches_per_update must be a multiple of the number of ranks, but "
                f"is {total} for {ranks}. Start one of {', '.join(map(str, possible))} processes."
            )
        return total // ranks


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig(Options, section="checkpoint", title="checkpoints"):
    """The section `checkpoint`."""

    save_dir: str = "runs"
    """Folder for checkpoints, log and result, by default runs/ARCH-TASK. A run resumes from the
    latest checkpoint in it, and keeps its options unless they are given."""
    restore_file: str | None = None
    """Checkpoint to resume from, or a save folder, whose latest checkpoint is used. One outside
    --save-dir is used only while --save-dir has no checkpoints, so that the same command resumes
    the run after an interruption."""
    finetune_from: str | None = None
    """Fine-tuning: checkpoint whose weights initialize the model. Its architecture is used unless
    --arch is given."""
    new_task: bool = False
    """Resume with another --task at the start of the next epoch: the weights and optimizer states
    that fit, the words seen and the schedules continue. For causal, then masked pre-training."""
    save_interval_updates: NonNegativeInt = 0
    """Also save every N updates, not only after each epoch."""
    save_at_words: str = ""
    """Also save, and keep, the first checkpoint after each of these numbers of words of the text,
    as in 1M,2M,...,10M,20M,...,100M, where dots stand for equal steps. log: 1K,2K,5K,10K, and so
    on up to the end of the run."""
    keep_last_epochs: NonNegativeInt = 0
    """Keep only the last N end-of-epoch checkpoints (0: all). The last and the best always stay."""
    keep_interval_updates: NonNegativeInt = field(default=1, metadata=ADVANCED)
    """Keep the last N checkpoints between epochs (0: all)."""
    keep_interval_updates_pattern: NonNegativeInt = field(default=0, metadata=ADVANCED)
    """Also keep the checkpoints between epochs whose update is a multiple of N (0: none)."""
    keep_best_checkpoints: NonNegativeInt = field(default=0, metadata=ADVANCED)
    """Also keep the N best checkpoints by --best-metric."""
    max_failed_saves: PositiveInt = field(default=3, metadata=ADVANCED)
    """Number of consecutive failed saves that stops the run. Earlier failures are logged."""
    no_save: bool = False
    """Save no checkpoints, only the log and the result."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.word_marks

    @property
    def word_marks(self) -> list[int]:
        """`save_at_words` as numbers."""
        text = self.save_at_words
        return parse_words("checkpoint.save_at_words", text) if text else []


@dataclass(frozen=True, kw_only=True)
class LoggingConfig(Options, section="logging", title="logging"):
    """The section `logging`."""

    log_interval: PositiveInt = 100
    """Log training metrics every N updates."""
    progress: Literal["auto", "bar", "lines"] = "auto"
    """Progress display. auto: a bar on terminals."""
    tensorboard_logdir: str | None = None
    """Folder for TensorBoard events."""
    wandb_project: str | None = None
    """Weights & Biases project to log to (needs the extra `wandb`). A resumed run continues its W&B
    run. WANDB_MODE=offline keeps the metrics in the save folder."""


@dataclass(frozen=True)
class ComponentConfig:
    """Name and config of a component, without the options of position terms not chosen."""

    name: str
    config: Any

    def __post_init__(self) -> None:
        if isinstance(self.config, HasTermOptions):
            object.__setattr__(self, "config", self.config.narrow())


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """The configuration of a training run, with its components and sections."""

    arch: ComponentConfig
    task: ComponentConfig
    criterion: ComponentConfig
    optimizer: ComponentConfig
    lr_scheduler: ComponentConfig
    data: DataConfig = field(default_factory=DataConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    callbacks: Mapping[str, Any] = field(default_factory=dict)
    """Name -> config of each callback that training.callbacks selects. A run that was read without
    their plugins has none."""
    schedules: Mapping[str, ValueSchedule] = field(default_factory=dict)
    """Path of an option -> its values over the run; its section has the last one."""
