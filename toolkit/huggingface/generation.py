"""Encoder-decoder and causal language models in Transformers.

B sentences   S source tokens   T target tokens   D model width
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import GenerationConfig, GenerationMixin
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput, Seq2SeqLMOutput
from transformers.utils import can_return_tuple

from toolkit.huggingface.config import ToolkitConfig
from toolkit.huggingface.model import ToolkitPreTrainedModel, find_padding
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import Encoded

MAX_NEW_TOKENS = 200


class GenerativeToolkitModel(ToolkitPreTrainedModel, GenerationMixin):
    """A model that `generate` decodes with, without a cache: every step reads the whole text."""

    encoder: GenerativeModel

    def __init__(self, config: ToolkitConfig) -> None:
        super().__init__(config)
        self.encoder.main_input_name = "input_ids"  # type: ignore[assignment]  # generate reads it
        eos = config.target_eos_token_id
        self.generation_config = GenerationConfig(
            decoder_start_token_id=eos if config.is_encoder_decoder else None,
            eos_token_id=eos,
            pad_token_id=config.target_pad_token_id,
            max_new_tokens=MAX_NEW_TOKENS,
            min_new_tokens=1,
            suppress_tokens=config.forbidden_token_ids,
            use_cache=False,
        )

    def prepare_inputs_for_generation(
        self,
        input_ids: Int[Tensor, "B T"],
        attention_mask: Shaped[Tensor, "B S"] | None = None,
        encoder_outputs: Any = None,
        **unused: Any,
    ) -> dict[str, Any]:
        """The whole text of every row, and the states of its source."""
        if encoder_outputs is None:
            return {"input_ids": input_ids, "attention_mask": attention_mask}
        return {
            "decoder_input_ids": input_ids,
            "attention_mask": attention_mask,
            "encoder_outputs": encoder_outputs,
        }

    def scores(self, states: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        return self.encoder.scores(states.flatten(0, 1)).unflatten(0, states.shape[:2])


class SourceEncoder(nn.Module):
    """The encoder of an encoder-decoder model, as `generate` calls it; the model owns it."""

    main_input_name = "input_ids"

    def __init__(self, model: ToolkitPreTrainedModel) -> None:
        super().__init__()
        self._model = (model,)

    def forward(
        self,
        input_ids: Int[Tensor, "B S"],
        attention_mask: Shaped[Tensor, "B S"] | None = None,
        **unused: Any,
    ) -> BaseModelOutput:
        [model] = self._model
        inputs = model.to_inputs(input_ids, attention_mask)
        return BaseModelOutput(last_hidden_state=model.encoder(inputs).states)


class ToolkitForConditionalGeneration(GenerativeToolkitModel):
    """The task translation: scores of the token after each position of the target."""

    tasks = ("translation",)

    def get_encoder(self, modality: str | None = None) -> SourceEncoder:
        """The encoder, as Transformers' generation calls it."""
        return SourceEncoder(self)

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "B S"] | None = None,
        attention_mask: Shaped[Tensor, "B S"] | None = None,
        decoder_input_ids: Int[Tensor, "B T"] | None = None,
        encoder_outputs: Any = None,
        labels: Int[Tensor, "B T"] | None = None,
    ) -> Seq2SeqLMOutput:
        """`labels` are targets with their end symbol, -100 in padding.

        They also give `decoder_input_ids`, the end symbol and the target, unless these are given.
        """
        if encoder_outputs is None:
            encoder_outputs = self.get_encoder()(input_ids, attention_mask)
        if decoder_input_ids is None:
            if labels is None:
                raise ValueError("Pass decoder_input_ids or labels.")
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        padding = None if attention_mask is None else find_padding(attention_mask)
        source = Encoded(encoder_outputs[0])
        logits = self.scores(self.encoder.decode(decoder_input_ids, source, padding))
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return Seq2SeqLMOutput(
            loss=loss, logits=logits, encoder_last_hidden_state=encoder_outputs[0]
        )

    def prepare_decoder_input_ids_from_labels(
        self, labels: Int[Tensor, "B T"]
    ) -> Int[Tensor, "B T"]:
        """The end symbol followed by the labels but the last."""
        config = self.config
        previous = F.pad(labels[:, :-1], (1, 0), value=config.target_eos_token_id)
        return previous.masked_fill(previous == -100, config.target_pad_token_id)


class ToolkitForCausalLM(GenerativeToolkitModel):
    """The task language_modeling: scores of the token after each position."""

    tasks = ("language_modeling",)

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "B T"],
        attention_mask: Shaped[Tensor, "B T"] | None = None,
        labels: Int[Tensor, "B T"] | None = None,
    ) -> CausalLMOutput:
        """`labels` are the tokens themselves, -100 in padding, which must be on the right."""
        # in training the check would wait for the GPU, and a graph cannot make it
        checks = not (torch.compiler.is_compiling() or (self.training and input_ids.is_cuda))
        if attention_mask is not None and checks and bool((attention_mask[:, 0] == 0).any()):
            raise ValueError(
                "Padding must be on the right: positions are counted from the first column. To "
                "generate, pass one prompt at a time, or prompts of equal length."
            )
        logits = self.scores(self.encoder(self.to_inputs(input_ids)).states)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return CausalLMOutput(loss=loss, logits=logits)
