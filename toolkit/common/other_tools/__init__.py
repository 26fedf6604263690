"""Names in Hugging Face Transformers and fairseq, and what to write here, for error messages."""

from __future__ import annotations

from toolkit.common.other_tools.components import COMPONENTS
from toolkit.common.other_tools.counterpart import Counterpart
from toolkit.common.other_tools.fairseq import FAIRSEQ
from toolkit.common.other_tools.transformers import TRANSFORMERS

__all__ = ["COMPONENTS", "FAIRSEQ", "OPTIONS", "TRANSFORMERS", "Counterpart"]

OPTIONS = {**TRANSFORMERS, **FAIRSEQ}
