"""Options of questions about texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from toolkit.config.declared import Options


@dataclass(frozen=True, kw_only=True)
class QaFormatConfig(Options, section="format"):
    """Options of the formats for questions."""

    on_malformed: Literal["error", "skip"] = "error"
    """How to handle a question that is incomplete, or whose answer is not at its offset. error:
    stop and name its file and line. skip: leave it out, report and count it; not in data to be
    submitted."""
