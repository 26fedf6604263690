"""Precision, gradient norm, clipping and the optimizer's step, without a device sync."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.func import functional_call
from torch.optim import Optimizer

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import Count, JsonError, JsonObject, convert_fields
from toolkit.config.sections import TrainingConfig
from toolkit.distributed import World
from toolkit.distributed.data_parallel import to_local, total_norm as total_norm
from toolkit.distributed.world import set_tf32


class Update(NamedTuple):
    """The outcome of one update; all values on the device."""

    norm: Float[Tensor, ""]
    """Norm of the gradient before clipping."""
    clipped: Float[Tensor, ""]
    """1 if the gradient was clipped, else 0."""
    skipped: Float[Tensor, ""]
    """1 if the norm was not finite or `should_skip` skipped the step, else 0."""


def collect_gradients(parameters: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of the parameters that have one."""
    return [p.grad for p in parameters if p.grad is not None]


def clip_and_step(
    optimizer: Optimizer,
    parameters: Sequence[Tensor],
    *,
    clip_norm: float,
    loss_scale: Float[Tensor, ""] | None = None,
    should_skip: Callable[[Float[Tensor, ""]], Float[Tensor, ""]] | None = None,
) -> Update:
    """Step with g / max(1, |g| / clip_norm) (Pascanu et al. 2013, algorithm 1).

    The gradients hold g times `loss_scale`. The step is skipped if |g| is not finite or
    `should_skip(|g|)` is 1.
    """
    scale = 1.0 if loss_scale is None else loss_scale
    norm = total_norm(collect_gradients(parameters)).to(parameters[0].device) / scale
    skipped = norm.isfinite().logical_not().float()
    if should_skip:
        skipped = torch.maximum(skipped, should_skip(norm))
    limit = clip_norm or torch.inf
    clipped, divisor = norm.gt(limit).float(), scale * (norm / limit).clamp(min=1.0)
    step_unless_skipped(optimizer, parameters, divisor, skipped)
    return Update(norm, clipped, skipped)


def step_unless_skipped(
    optimizer: Optimizer,
    parameters: Sequence[Tensor],
    divisor: Float[Tensor, ""],
    skipped: Float[Tensor, ""],
) -> None:
    """Step with gradients / divisor unless skipped, in one pass by fused optimizers. Whether to
    skip is known on the device: reading it would cost an update on a GPU.
    """
    if optimizer.defaults.get("fused"):
        fused: dict[str, Tensor] = {"grad_scale": divisor, "found_inf": skipped}
        vars(optimizer).update(fused)
        optimizer.step()
        for name in fused:
            delattr(optimizer, name)
    elif skipped.device.type != "cpu":
        step_and_restore(optimizer, parameters, divisor, skipped)
    elif not skipped and (gradients := collect_gradients(parameters)):
        torch._foreach_div_(gradients, divisor)
        optimizer.step()


@torch.no_grad()
def step_and_restore(
    optimizer: Optimizer,
    parameters: Sequence[Tensor],
    divisor: Float[Tensor, ""],
    skipped: Float[Tensor, ""],
) -> None:
    """Step in any case, and put everything back if skipped, without asking the device. A skipped
    step is taken with zero gradients, so that all numbers stay finite.
    """
    gradients = [to_local(gradient) for gradient in collect_gradients(parameters)]
    if not gradients:
        return
    torch._foreach_div_(gradients, divisor)
    for gradient in gradients:
        gradient.masked_fill_(skipped.bool(), 0.0)
    before = device_numbers(optimizer, parameters)
    saved = dict(zip(before, torch._foreach_mul(list(before.values()), 1.0), strict=True))
    optimizer.step()
    after = device_numbers(optimizer, parameters)
    torch._foreach_mul_(list(after.values()), 1 - skipped)  # states start from zero
    torch._foreach_mul_(list(saved.values()), skipped)
    torch._foreach_add_([after[key] for key in saved], list(saved.values()))


def device_numbers(
    optimizer: Optimizer, parameters: Sequence[Tensor]
) -> dict[tuple[int, str], Tensor]:
    """Parameters and their states, as far as they are on the device; of sharded ones the rows."""
    found = {}
    for index, p in enumerate(parameters):
        for name, value in {"": p, **optimizer.state.get(p, {})}.items():
            if isinstance(value, Tensor) and value.is_floating_point() and value.device == p.device:
                found[index, name] = to_local(value.detach())
    return found


DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def bf16_is_fast(device: torch.device) -> bool:
    """Whether the hardware multiplies bf16: AVX512_BF16 or AMX, or a GPU since Ampere."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type != "cpu":
        return False
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def requested_precision(c: TrainingConfig) -> str:
    """--precision, or the format of --fp16 or --bf16."""
    return "fp16" if c.fp16 else "bf16" if c.bf16 else c.precision


def resolve_precision(name: str, device: torch.device) -> str:
    """The format that auto, fp32, tf32, bf16 or fp16 means on this device."""
    if name == "auto":
        return "bf16" if bf16_is_fast(device) else "fp32"
    if name == "fp16" and device.type == "cpu":
        raise ToolkitError(
            "precision must be auto, bf16 or fp32 on a CPU, but is fp16, which CPUs only "
            "emulate. Omit it: auto chooses the fast format of this machine."
        )
    if name == "tf32" and device.type != "cuda":
        raise ToolkitError(
            f"precision must be auto, bf16 or fp32 on {device.type}, but is tf32, a format of "
            f"NVIDIA's GPUs. Omit it: auto chooses the fast format of this machine."
        )
    return name


class LossScale:
    """Dynamic scaling of the loss (Micikevicius et al. 2018, section 3.2), on the device: halved
    after a non-finite gradient, doubled after `interval` consecutive finite ones.
    """

    def __init__(self, device: torch.device, start: float = 2.0**15, interval: int = 2000) -> None:
        self.scale = torch.tensor(start, device=device)
        self.good = torch.tensor(0.0, device=device)
        self.interval = interval

    def update(self, skipped: Tensor) -> None:
        """Record one update; `skipped` is 1 if its gradient was not finite, else 0."""
        self.good.add_(1).mul_(1 - skipped)
        grows = self.good.ge(self.interval).float()
        self.good.mul_(1 - grows)
        self.scale.mul_(1 + grows - 0.5 * skipped)

    def state(self) -> dict[str, float]:
        return {"scale": float(self.scale), "good": float(self.good)}

    def restore(self, state: Mapping[str, float]) -> None:
        self.scale.fill_(state["scale"])
        self.good.fill_(state["good"])


class Precision:
    """Autocast for the learner and the criterion; parameters stay in fp32.

    The choice between fp32 and tf32 holds for the whole process. With `casts_together` the weights
    of linear maps are converted by one operation, and their gradients by another; autocast launches
    two kernels for each.
    """

    def __init__(self, name: str, device: torch.device, *, casts_together: bool = False) -> None:
        self.name, self.device = name, device
        self.casts_together = casts_together and name in DTYPES
        self.loss_scale = LossScale(device) if name == "fp16" else None
        if device.type == "cuda":
            set_tf32(name == "tf32")

    @classmethod
    def for_training(cls, name: str, c: TrainingConfig, world: World) -> Precision:
        """With `casts_together` on one GPU: ranks exchange gradients as they come, compiled layers
        convert inside, and those that are recomputed no longer see the copies.
        """
        alone = world.device.type == "cuda" and world.size == 1 and c.sharding == "none"
        together = alone and not (c.compile or c.checkpoint_activations)
        return cls(name, world.device, casts_together=together)

    def autocast(self) -> AbstractContextManager[object]:
        if self.name not in DTYPES:
            return nullcontext()
        return torch.autocast(self.device.type, DTYPES[self.name])

    def call(self, module: nn.Module, *arguments: Any) -> Any:
        """module(*arguments), under autocast."""
        maps = module.named_modules() if self.casts_together else ()
        weights = {
            f"{name}.{part}": p
            for name, linear in maps
            if type(linear) is nn.Linear
            for part, p in linear.named_parameters()
            if p.requires_grad
        }
        if not weights:
            return module(*arguments)
        distinct = dict.fromkeys(weights.values())
        casts = dict(zip(distinct, _CastTogether.apply(DTYPES[self.name], *distinct), strict=True))
        casts_by_name = {name: casts[p] for name, p in weights.items()}
        return functional_call(module, casts_by_name, arguments, tie_weights=False)


class _CastTogether(torch.autograd.Function):
    @staticmethod
    def forward(ctx, dtype, *weights):  # type: ignore[no-untyped-def]
        ctx.set_materialize_grads(False)
        return convert_together(weights, dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients):  # type: ignore[no-untyped-def]
        present = [it for it in gradients if it is not None]
        found = iter(convert_together(present, torch.float32))
        return None, *(None if it is None else next(found) for it in gradients)


def convert_together(tensors: Sequence[Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Copies in another format, by one operation."""
    copies = tuple(torch.empty_like(it, dtype=dtype) for it in tensors)
    torch._foreach_copy_(list(copies), list(tensors))
    return copies


WINDOW = 128
SIGMAS = 6.0


class SpikeDetector:
    """Detects x_t > mean + 6 sigma over the previous 128 updates, x being loss or gradient norm.

    The rule of OLMo-core's SkipStepOptimizer: it applies once half the window is full, and spikes
    enter the window too, so that a lasting change soon becomes normal. Updates that are not finite
    are always skipped and do not enter. Nothing here waits for the device.
    """

    def __init__(
        self, device: torch.device, *, window: int = WINDOW, sigmas: float = SIGMAS
    ) -> None:
        self.window, self.sigmas = window, sigmas
        self.values = torch.zeros(2, window, device=device)
        """Ring buffers of losses and norms."""
        self.taken = torch.zeros(1, dtype=torch.int64, device=device)
        self.indices = torch.arange(window, device=device)

    def __call__(self, loss: Float[Tensor, ""], norm: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """1 if an update with this loss and norm is a spike, else 0; adds both to the window."""
        latest = torch.stack([loss, norm]).to(self.values)
        count = self.taken.clamp(max=self.window)
        filled = self.indices < count
        mean = (self.values * filled).sum(1) / count
        squares = ((self.values - mean[:, None]).square() * filled).sum(1)
        sigma = (squares / (count - 1)).sqrt()
        enough = count >= max(2, self.window // 2)
        spike = ((latest - mean > self.sigmas * sigma).any() & enough).float()
        finite = latest.isfinite().all()
        slot = self.taken % self.window
        value = torch.where(finite, latest, self.values.index_select(1, slot)[:, 0])
        self.values.index_copy_(1, slot, value[:, None])
        self.taken += finite
        return spike[0]

    def state(self) -> JsonObject:
        return {"taken": int(self.taken), "values": self.values.tolist()}

    def restore(self, state: JsonObject) -> None:
        saved = convert_fields(state, {"taken": Count, "values": list[list[float]]})
        if [len(row) for row in saved["values"]] != [self.window] * len(self.values):
            raise JsonError(f"values: expected 2 lists of {self.window} numbers")
        self.taken.fill_(saved["taken"])
        self.values.copy_(torch.tensor(saved["values"]))
