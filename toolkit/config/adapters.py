"""Options of adapters, which are trained in place of an encoder's weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from toolkit.config.declared import ADVANCED, NonNegativeInt, Options, PositiveFloat


@dataclass(frozen=True, kw_only=True)
class AdapterOptions(Options, title="adapters"):
    """Options of low-rank adaptation (LoRA) and of bottleneck adapters."""

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

    @property
    def has_adapters(self) -> bool:
        """Whether there are any."""
        return bool(self.lora_rank or self.bottleneck)
