"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import Options, Size, Tokens

Device = Literal["auto", "cpu", "cuda", "mps", "xpu"]
Precision = Literal["auto", "fp32", "tf32", "bf16", "fp16"]
Weights = Literal["auto", "trained", "average"]


@dataclass(frozen=True, kw_only=True)
class OutputOptions(Options, title="output"):
    """Options of every command that reports results."""

    json: str | None = None
    """File to write results to as JSON lines; - for standard output, which then holds nothing
    else."""


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
    """Floating-point format to compute in. bf16, fp16: mixed precision. auto: bf16 if the hardware
    is fast at it, else fp32. tf32: fp32, with TensorFloat-32 for matrix products and convolutions
    on GPUs."""


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


def check_distinct_files(options: Iterable[tuple[str, object]]) -> None:
    """Raise if two of the options that name output files name the same one; None names none."""
    options_by_file: dict[str, str] = {}
    for option, path in options:
        if path is None:
            continue
        other = options_by_file.setdefault(os.path.realpath(str(path)), option)
        if other != option:
            raise ToolkitError(
                f"{other} and {option} must name different files, but both are {path}."
            )
