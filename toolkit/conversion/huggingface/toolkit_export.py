"""Export with the toolkit's own classes (toolkit.huggingface), for every architecture and task."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.checkpoints.load import find_checkpoint
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.conversion.huggingface import files
from toolkit.conversion.huggingface.components import check_component
from toolkit.conversion.huggingface.model_card import MODEL_CARD_FILE, CardModel, build_model_card
from toolkit.conversion.huggingface.tokenizer_export import Template, write_tokenizer
from toolkit.data.formats.tagging.tokenizer import TaggingTokenizer
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.wrapped import unwrap_tokenizer
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.tasks.learner import Learner
from toolkit.tasks.load import load_checkpoint

if TYPE_CHECKING:
    from toolkit.huggingface.model import ToolkitPreTrainedModel

UNLIMITED = int(1e30)
"""Transformers' maximum length of a tokenizer without one."""


def export(
    source: Path, target: Path, *, weights: str = "auto", component: str | None = None
) -> JsonObject:
    """Write the folder, complete or not at all; gives facts about it."""
    huggingface = importlib.import_module("toolkit.huggingface")  # Transformers is optional
    learner = load_checkpoint(source, weights=weights)
    task = learner.require_origin().task.name
    check_component(task, component)
    model: ToolkitPreTrainedModel = huggingface.to_huggingface(learner, component=component)
    described = CardModel(
        type(model).__name__, model.num_parameters(), learner.tokenizer, native=False
    )
    card = build_model_card(target.name, find_checkpoint(source), described)
    with hidden_progress_bars():
        files.write_folder(target, lambda folder: fill(folder, card, learner, model))
    kept = {name.replace(f"task.{task}.", "task.") for name in model.state_dict()}
    return {
        "class": type(model).__name__,
        "parameters": model.num_parameters(),
        "tensors": len(kept),
        "omitted_tensors": sorted(set(learner.state_dict()) - kept),
        "tokenizer": unwrap_tokenizer(learner.tokenizer).kind,
        "symbols": model.config.vocab_size,
        "note": "",
    }


@contextmanager
def hidden_progress_bars() -> Iterator[None]:
    """Hide the progress bars of Transformers inside the context."""
    logging = importlib.import_module("transformers.utils.logging")
    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()


def fill(folder: Path, card: str, learner: Learner, model: ToolkitPreTrainedModel) -> None:
    """Write model, tokenizer and model card into a folder."""
    model.save_pretrained(folder)
    export_tokenizer(folder, learner, model)
    (folder / MODEL_CARD_FILE).write_text(card, "utf-8")


def export_tokenizer(folder: Path, learner: Learner, model: ToolkitPreTrainedModel) -> None:
    """A tokenizer.json if it gives the same ids, else files for ToolkitTokenizer."""
    tokenizer, encoder = learner.tokenizer, learner.encoder
    template = choose_template(tokenizer, encoder)
    length = encoder.max_positions or UNLIMITED
    token_types: Any = model.config.arch.get("token_types", 1)
    if not needs_toolkit(tokenizer):
        try:
            return write_tokenizer(
                folder,
                unwrap_tokenizer(tokenizer),
                positions=length,
                token_types=token_types,
                template=template,
            )
        except ToolkitError:
            pass  # no tokenizer.json can express it
    own = importlib.import_module("toolkit.huggingface.tokenizer")
    path = folder / own.TOOLKIT_TOKENIZER_FILE
    path.write_bytes(model.export_files[path.name])
    types = ["token_type_ids"] if token_types > 1 else []
    own.ToolkitTokenizer(
        str(path),
        template=template,
        model_max_length=length,
        model_input_names=["input_ids", *types, "attention_mask"],
    ).save_pretrained(folder)
    return None


def needs_toolkit(tokenizer: Tokenizer) -> bool:
    """Whether ids alone do not make an input, or targets have other ids."""
    words = isinstance(tokenizer, TaggingTokenizer) and tokenizer.has_words
    return words or tokenizer.target.vocabulary is not tokenizer.vocabulary


def choose_template(tokenizer: Tokenizer, encoder: object) -> Template:
    """The special tokens that the exported tokenizer adds to a text."""
    if isinstance(encoder, GenerativeModel):
        return "prompt" if encoder.decoder_only else "source"
    return "pair" if tokenizer.vocabulary.cls != tokenizer.vocabulary.pad else "none"
