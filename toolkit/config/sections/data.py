"""The `data` section of a run: data folders and how they are batched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import (
    Above,
    Limit,
    NonNegativeInt,
    Options,
    Processes,
    Size,
    Tokens,
)
from toolkit.config.option_groups import BatchOptions
from toolkit.config.options import ADVANCED, MULTI_WORD

Weight = Annotated[float, Above(0), Limit(10_000)]


@dataclass(frozen=True, kw_only=True)
class CorpusOptions(Options, title="data"):
    """Options that choose the data of a run."""

    dirs: list[str] = field(default_factory=list, metadata=MULTI_WORD)
    """Data folders written by toolkit-preprocess or fairseq-preprocess. Several are read as one
    corpus. Separated by colons, as in a:b:c, they are shards of one corpus: each epoch reads the
    next one."""
    weights: list[Weight] = field(default_factory=list, metadata=ADVANCED)
    """How often an epoch visits each corpus, as in 2,0.5: twice the first one, a random half of the
    second one. Default: once each."""
    source_lang: str = field(default="", metadata=ADVANCED)
    """Source language, for data of fairseq-preprocess: to select one of several language pairs, or
    to translate a pair in the other direction than its files are named."""
    target_lang: str = field(default="", metadata=ADVANCED)
    """Target language, with --source-lang."""
    train_subset: str = field(default="train", metadata=ADVANCED)
    """Split to train on."""
    valid_subset: str = "valid"
    """Splits to validate on, separated by commas. Empty: none."""


@dataclass(frozen=True, kw_only=True)
class TrainingBatchOptions(BatchOptions, title="batches"):
    """Limits of training and validation batches, and their order."""

    max_tokens_valid: Tokens | None = field(default=None, metadata=ADVANCED)
    """Maximum number of tokens per validation batch, including padding. Without this and
    --batch-size-valid: 16,384 on a GPU, and as in training on a CPU. Batches that do not fit into
    memory are halved."""
    batch_size_valid: Size | None = field(default=None, metadata=ADVANCED)
    """Maximum number of examples per validation batch."""
    evaluation_seed: int = field(default=0, metadata=ADVANCED)
    """Seed of the randomness in validation, such as masking. It does not depend on the training
    seed, so that runs with different seeds are evaluated on the same examples."""
    num_workers: Processes = 1
    """Processes that prepare batches in advance (0: the training process does)."""
    timeout_seconds: NonNegativeInt = field(default=600, metadata=ADVANCED)
    """Maximum time to wait for a batch from a worker before the run ends with an error (0: no
    limit)."""


@dataclass(frozen=True, kw_only=True)
class DataConfig(CorpusOptions, TrainingBatchOptions, section="data"):
    """The section `data`: corpora and batches."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights and len(self.weights) != len(self.dirs):
            raise ToolkitError(
                f"data.weights must be one for each corpus, but there are {len(self.weights)} for "
                f"{len(self.dirs)}. Shards of one corpus (a:b) share one weight."
            )
        if bool(self.source_lang) != bool(self.target_lang):
            given, other = "source", "target"
            if self.target_lang:
                given, other = other, given
            raise ToolkitError(f"--{given}-lang requires --{other}-lang.")

    @property
    def languages(self) -> tuple[str, str] | None:
        """Source and target language, if the run names them."""
        return (self.source_lang, self.target_lang) if self.source_lang else None
