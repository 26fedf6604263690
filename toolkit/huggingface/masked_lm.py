"""Masked language modeling and replaced token detection in Transformers.

B sentences   S tokens of a sentence   C characters of a word
"""

from __future__ import annotations

import torch
from jaxtyping import Int, Shaped
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.modeling_outputs import MaskedLMOutput, TokenClassifierOutput
from transformers.utils import can_return_tuple

from toolkit.huggingface.model import ToolkitPreTrainedModel
from toolkit.models.interface import EncoderModel
from toolkit.tasks.pretraining.mlm import MaskedLanguageModel
from toolkit.tasks.pretraining.mpm import MaskedPositionModel
from toolkit.tasks.pretraining.rtd import ReplacedTokens


class ToolkitForMaskedLM(ToolkitPreTrainedModel):
    """Scores of all tokens at every position; of a model trained with rtd, by its generator."""

    tasks = ("mlm", "mpm", "rtd")

    def mlm_parts(self) -> tuple[EncoderModel, nn.Module]:
        """The encoder and the head that predict masked tokens."""
        task = self.head
        if isinstance(task, ReplacedTokens):
            return task.generator.encoder, task.generator.head
        assert isinstance(task, MaskedLanguageModel | MaskedPositionModel)
        if isinstance(task, MaskedPositionModel):
            task.check_objective("mlm", "Filling masks")
        return self.encoder, task.head

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "B S"],
        attention_mask: Shaped[Tensor, "B S"] | None = None,
        token_type_ids: Int[Tensor, "B S"] | None = None,
        position_ids: Int[Tensor, "B S"] | None = None,
        labels: Int[Tensor, "B S"] | None = None,
    ) -> MaskedLMOutput:
        """`labels` are the original tokens, -100 where no token is to be predicted."""
        encoder, head = self.mlm_parts()
        inputs = self.to_inputs(input_ids, attention_mask, token_type_ids, position_ids)
        states = encoder(inputs).states
        logits = head(states.flatten(0, 1), encoder.token_embedding.weight)  # (BS, D) -> (BS, V)
        loss = None if labels is None else F.cross_entropy(logits, labels.flatten())
        return MaskedLMOutput(loss=loss, logits=logits.unflatten(0, input_ids.shape))


class ToolkitForPreTraining(ToolkitPreTrainedModel):
    """Scores of every token having been replaced (ELECTRA): the discriminator of rtd."""

    tasks = ("rtd",)

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "B S"],
        attention_mask: Shaped[Tensor, "B S"] | None = None,
        token_type_ids: Int[Tensor, "B S"] | None = None,
        position_ids: Int[Tensor, "B S"] | None = None,
        labels: Int[Tensor, "B S"] | None = None,
    ) -> TokenClassifierOutput:
        """`labels` are 1 for replaced tokens and 0 for others; padding does not count."""
        inputs = self.to_inputs(input_ids, attention_mask, token_type_ids, position_ids)
        task, states = self.head, self.encoder(inputs).states
        assert isinstance(task, ReplacedTokens), "it is the only task of the class"
        scores = task.head(states.flatten(0, 1)).view(input_ids.shape)  # (BS, D) -> (B, S)
        loss = None
        if labels is not None:
            weights = torch.ones_like(scores) if attention_mask is None else attention_mask == 1
            targets, counted = labels.to(scores.dtype), weights.to(scores.dtype)
            losses = F.binary_cross_entropy_with_logits(scores, targets, counted, reduction="sum")
            loss = losses / counted.sum()
        return TokenClassifierOutput(loss=loss, logits=scores)
