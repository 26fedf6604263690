"""Options of toolkit-generate: what a trained model makes of new text."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.sections import DEVICES, one_of, require


@dataclass(frozen=True, kw_only=True)
class GenerateConfig:
    path: str = ""
    """Checkpoint to use; a save folder means its best one."""
    task: str = ""
    """Task of the checkpoint, such as mlm. If given, a checkpoint of another one is refused."""
    input: str = "-"
    """File of text, one sentence a line with [MASK] where a token is missing; - reads stdin."""
    order: bool = False
    """Put words in order instead: of each line those in {braces}, or all where none is, go where
    a model trained by the task mpm would have them."""
    top: int = 5
    """Tokens to give for each [MASK], or positions for each word, most probable first."""
    results_path: str | None = None
    """File to write the answers to as JSON lines, besides showing them."""
    json: str | None = None
    """File to write answers and counts to as JSON lines; - for standard output, on which nothing
    else is then written."""
    buffer_size: int = 1000
    """Lines to read before answering; they are sorted by length, which is faster. A person
    typing is answered line by line."""
    max_tokens: int = 4096
    """Most tokens that go through the model together, padding included; a longer line is
    answered with a note."""
    device: str = "auto"
    """auto, cpu or cuda. auto is cuda where there is one."""

    def __post_init__(self) -> None:
        require(bool(self.path), "--path must name a checkpoint, but is missing. Give its folder.")
        for name in ("top", "buffer_size", "max_tokens"):
            value = getattr(self, name)
            require(value > 0, f"{name} must be at least 1, but is {value}.")
        one_of("device", self.device, DEVICES)
