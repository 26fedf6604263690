"""Models of the toolkit as classes of Hugging Face Transformers.

Importing the package registers them, so that AutoConfig and AutoModel open exported folders.
"""

from __future__ import annotations

from toolkit.common.errors import ToolkitError

try:
    import transformers
except ModuleNotFoundError as error:
    raise ToolkitError(
        "toolkit.huggingface requires Transformers. Install it with: pip install 'toolkit-seq[hf]'"
    ) from error

from toolkit.huggingface.config import (
    ENCODER_CLASSES,
    GENERATIVE_CLASSES,
    ToolkitConfig,
    has_components,
)
from toolkit.huggingface.heads import (
    ToolkitForCausalLM,
    ToolkitForConditionalGeneration,
    ToolkitForMaskedLM,
    ToolkitForMultipleChoice,
    ToolkitForPreTraining,
    ToolkitForQuestionAnswering,
    ToolkitForSequenceClassification,
    ToolkitForTokenClassification,
)
from toolkit.huggingface.model import ToolkitModel
from toolkit.huggingface.program import to_huggingface
from toolkit.huggingface.tokenizer import ToolkitTokenizer

__all__ = [
    "ToolkitConfig",
    "ToolkitForCausalLM",
    "ToolkitForConditionalGeneration",
    "ToolkitForMaskedLM",
    "ToolkitForMultipleChoice",
    "ToolkitForPreTraining",
    "ToolkitForQuestionAnswering",
    "ToolkitForSequenceClassification",
    "ToolkitForTokenClassification",
    "ToolkitModel",
    "ToolkitTokenizer",
    "has_components",
    "to_huggingface",
]

transformers.AutoConfig.register(ToolkitConfig.model_type, ToolkitConfig, exist_ok=True)
for auto_class, name in {**GENERATIVE_CLASSES, **ENCODER_CLASSES}.items():
    getattr(transformers, auto_class).register(ToolkitConfig, globals()[name], exist_ok=True)
