"""Detection of spikes in the loss and the gradient norm."""

from __future__ import annotations

from typing import TypedDict

import torch
from jaxtyping import Float
from torch import Tensor

from toolkit.common.json_files import Count, JsonError, convert
from toolkit.training.step import State

WINDOW = 128
SIGMAS = 6.0


class SpikeState(TypedDict):
    """State of a SpikeDetector in a checkpoint."""

    taken: Count
    values: list[list[float]]


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

    def state(self) -> State:
        return {"taken": int(self.taken), "values": self.values.tolist()}

    def restore(self, state: State) -> None:
        saved = convert(state, SpikeState)
        if [len(row) for row in saved["values"]] != [self.window] * len(self.values):
            raise JsonError(f"values: expected 2 lists of {self.window} numbers")
        self.taken.fill_(saved["taken"])
        self.values.copy_(torch.tensor(saved["values"]))
