"""Linear maps: packed for inference on CPUs; to classes, padded to what suits tensor cores; and the
cross-entropy of such logits, with its gradient in their place, as one operation on a GPU.

loss_n = -(1 - s) log p_n(target_n) - s mean_c log p_n(c), p = softmax of the logits
d loss_n / d logits_n = p_n - (1 - s) onehot(target_n) - s / C

Computed by `kernels.cross_entropy`: logits are read twice and written once. Torch's operations
would write several matrices in fp32.
"""

from __future__ import annotations

import platform

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.nn.ops.dispatch import fast
from toolkit.nn.ops.kernels import define

TUNED_ROWS = 32
"""Number of rows that the order is chosen for; others work too."""


def supports_packing(weight: Tensor) -> bool:
    """Whether this torch, on this processor, has packed products for a weight."""
    ops, backend = torch.ops.mkldnn, torch.backends.mkldnn
    if not (
        fast("packed_linear")
        and weight.device.type == "cpu"
        and platform.machine() in {"x86_64", "AMD64"}
        and backend.is_available()
        and backend.enabled
        and hasattr(ops, "_reorder_linear_weight")
        and hasattr(ops, "_linear_pointwise")
    ):
        return False
    return weight.dtype == torch.float32 or (
        weight.dtype == torch.bfloat16 and bool(ops._is_mkldnn_bf16_supported())
    )


class PackedLinear(nn.Module):
    """W x + b with weights reordered once for oneDNN, without gradients or weights that could be
    saved, moved or trained.

    A product of few rows otherwise spends more time on reordering the weights than on multiplying.
    """

    def __init__(self, weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None) -> None:
        super().__init__()
        self.packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), TUNED_ROWS)
        self.bias = None if bias is None else bias.detach()

    def forward(self, x: Float[Tensor, "... I"]) -> Float[Tensor, "... O"]:
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")


def pack_linear(weight: Float[Tensor, "O I"], bias: Tensor | None = None) -> PackedLinear | None:
    """A packed linear map with this weight; None if unsupported."""
    return PackedLinear(weight, bias) if supports_packing(weight) else None


def pack_linear_layers(model: nn.Module) -> None:
    """Replace linear maps by packed ones if supported, for inference only."""
    packed: dict[nn.Module, PackedLinear | None] = {
        it: pack_linear(it.weight, it.bias) for it in model.modules() if type(it) is nn.Linear
    }
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if replacement := packed.get(child):
                setattr(parent, name, replacement)


CLASSES_MULTIPLE = {"cuda": 64}
"""Device -> a divisor of the number of classes computed. CUDA's products of half precision are
several times slower if rows do not begin at multiples of 16 bytes."""
MIN_ROWS = 32
"""With fewer rows, a product reads the table once and is not faster than padding it."""


def aligned_linear(
    x: Float[Tensor, "N E"],
    table: Float[Tensor, "C E"],
    bias: Float[Tensor, " C"] | None = None,
    cap: float | None = None,
) -> Float[Tensor, "N C"]:
    """x @ table.T + bias; with a cap, soft caps of it."""
    if not count_padding(x, table):
        return soft_cap(F.linear(x, table, bias), cap)
    return soft_cap(F.linear(*pad_classes(*cast_operands(x, table, bias)))[:, : len(table)], cap)


def soft_cap(z: Float[Tensor, "N C"], cap: float | None) -> Float[Tensor, "N C"]:
    """c tanh(z / c) (Gemma Team 2024, "Gemma 2", section 2); z without a cap."""
    return z if cap is None else cap * torch.tanh(z / cap)


def count_padding(x: Float[Tensor, "N E"], table: Float[Tensor, "C E"]) -> int:
    """Rows of zeros that the table gets."""
    return 0 if len(x) < MIN_ROWS else -len(table) % CLASSES_MULTIPLE.get(x.device.type, 1)


def pad_classes(
    x: Float[Tensor, "N E"], table: Float[Tensor, "C E"], bias: Float[Tensor, " C"] | None
) -> tuple[Float[Tensor, "N E"], Float[Tensor, "P E"], Float[Tensor, " P"] | None]:
    """The operands, with zeros for the classes that are added."""
    if not (rows := count_padding(x, table)):
        return x, table, bias
    table = torch.cat([table, table.new_zeros(rows, table.shape[1])])
    return x, table, None if bias is None else F.pad(bias, (0, rows))


def cast_operands(
    x: Tensor, table: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The operands in autocast's precision."""
    device = x.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        x, table = x.to(dtype), table.to(dtype)
    return x, table, None if bias is None else bias.to(x.dtype)


SCHEMA = "(Tensor(a!) logits, Tensor targets, Tensor valid, int classes, float smoothing) -> Tensor"


@define("toolkit::replace_by_gradient", mutates_args=("logits",), schema=SCHEMA)
def replace_by_gradient(
    logits: Tensor, targets: Tensor, valid: Tensor, classes: int, smoothing: float
) -> Tensor:
    """The loss of each row, in fp32; 0, with gradients of 0, where it is not valid.

    logits (N, P), P >= C; columns from C on count as -inf. targets and valid (N).
    """
    from toolkit.nn.ops.kernels.cross_entropy import launch

    losses = allocate_losses(logits)
    launch(logits, targets, valid, losses, classes, smoothing)
    return losses


@replace_by_gradient.register_fake
def allocate_losses(logits: Float[Tensor, "N P"], *rest: object) -> Float[Tensor, " N"]:
    """Shape of the losses, for compilers."""
    return logits.new_empty(len(logits), dtype=torch.float32)
