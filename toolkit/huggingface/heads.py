"""Models with heads in Transformers: masked and replaced tokens, texts, options, tags, answers.

B sentences   S tokens of a sentence   C characters of a word
N texts or questions   O options   L labels
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import GenerationMixin
from transformers.modeling_outputs import (
    BaseModelOutput,
    CausalLMOutput,
    MaskedLMOutput,
    MultipleChoiceModelOutput,
    QuestionAnsweringModelOutput,
    Seq2SeqLMOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils import can_return_tuple

from toolkit.criteria import IGNORED
from toolkit.huggingface.config import ToolkitConfig, to_generation_config
from toolkit.huggingface.model import ToolkitPreTrainedModel, find_padding, flat_indices
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import Encoded
from toolkit.tasks.pretraining.hybrid import Hybrid

Items = Tensor | int | None
"""Labels of all micro-batches of an update, on all ranks; None for those of the batch alone."""


def mean_loss(total: Tensor, labels: Tensor, items: Items) -> Float[Tensor, "*one"]:
    """total / items: summed over micro-batches of any size it is the loss of one large batch.

    Labels of -100 do not count; without any, the loss is 0.
    """
    return total / ((labels != IGNORED).sum().clamp(min=1) if items is None else items)


def cross_entropy(
    logits: Float[Tensor, "N L"], labels: Int[Tensor, ...] | None, items: Items
) -> Float[Tensor, "*one"] | None:
    """The mean of -log p over N labels of any shape; None without labels."""
    if labels is None:
        return None
    labels = labels.flatten()
    total = F.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="sum")
    return mean_loss(total, labels, items)


class ToolkitForSequenceClassification(ToolkitPreTrainedModel):
    """The task glue: scores of the classes of a text or a pair, or its number."""

    tasks = ("glue",)

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "B S"],
        attention_mask: Shaped[Tensor, "B S"] | None = None,
        token_type_ids: Int[Tensor, "B S"] | None = None,
        position_ids: Int[Tensor, "B S"] | None = None,
        labels: Shaped[Tensor, "B ..."] | None = None,
        num_items_in_batch: Items = None,
    ) -> SequenceClassifierOutput:
        """`labels` are classes, numbers or rows of 0 and 1, as `config.problem_type` says."""
        inputs = self.to_inputs(input_ids, attention_mask, token_type_ids, position_ids)
        logits = self.head.scores(self.encoder, inputs, flat_indices(inputs, 1))
        loss = None if labels is None else self.compute_loss(logits, labels, num_items_in_batch)
        return SequenceClassifierOutput(loss=loss, logits=logits)

    def compute_loss(
        self, logits: Float[Tensor, "B L"], labels: Shaped[Tensor, "B ..."], items: Items
    ) -> Float[Tensor, "*one"] | None:
        """That of the problem type, which the first labels decide if the configuration does not."""
        if self.config.problem_type is None:
            several = labels.is_floating_point()
            kind = "multi_label_classification" if several else "single_label_classification"
            self.config.problem_type = "regression" if self.config.num_labels == 1 else kind
        if self.config.problem_type == "regression":
            total = F.mse_loss(logits.flatten(), labels.flatten().to(logits.dtype), reduction="sum")
        elif self.config.problem_type == "multi_label_classification":
            targets = labels.to(logits.dtype)
            total = F.binary_cross_entropy_with_logits(logits, targets, reduction="sum")
        else:
            return cross_entropy(logits, labels, items)
        return mean_loss(total, labels, items)


class ToolkitForMultipleChoice(ToolkitPreTrainedModel):
    """The task multiple_choice: one score per option."""

    tasks = ("multiple_choice",)

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "N O S"],
        attention_mask: Shaped[Tensor, "N O S"] | None = None,
        token_type_ids: Int[Tensor, "N O S"] | None = None,
        position_ids: Int[Tensor, "N O S"] | None = None,
        labels: Int[Tensor, " N"] | None = None,
        num_items_in_batch: Items = None,
    ) -> MultipleChoiceModelOutput:
        """Every option is a row with its passage; `labels` are the correct options."""
        more = (attention_mask, token_type_ids, position_ids)
        rest = (None if each is None else each.flatten(0, 1) for each in more)
        inputs = self.to_inputs(input_ids.flatten(0, 1), *rest)  # (N, O, S) -> (NO, S)
        scores = self.head.scores(self.encoder, inputs, flat_indices(inputs, 1))
        logits = scores.view(input_ids.shape[:2])  # (NO) -> (N, O)
        loss = cross_entropy(logits, labels, num_items_in_batch)
        return MultipleChoiceModelOutput(loss=loss, logits=logits)


class ToolkitForMaskedLM(ToolkitPreTrainedModel):
    """Scores of all tokens at every position; of a model trained with rtd, by its generator.

    Those of a model trained with hybrid are of the next token: a mask is read before it.
    """

    tasks = ("mlm", "mpm", "rtd", "hybrid")

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "B S"],
        attention_mask: Shaped[Tensor, "B S"] | None = None,
        token_type_ids: Int[Tensor, "B S"] | None = None,
        position_ids: Int[Tensor, "B S"] | None = None,
        labels: Int[Tensor, "B S"] | None = None,
        num_items_in_batch: Items = None,
    ) -> MaskedLMOutput:
        """`labels` are the original tokens, -100 where no token is to be predicted."""
        encoder, head = self.head.token_head(self.encoder)
        inputs = self.to_inputs(input_ids, attention_mask, token_type_ids, position_ids)
        states = encoder(inputs).states
        logits = head(states.flatten(0, 1), encoder.token_embedding.weight)  # (BS, D) -> (BS, V)
        if labels is not None:  # of the token that each position predicts
            labels = F.pad(labels[:, self.head.shift :], (0, self.head.shift), value=IGNORED)
        loss = cross_entropy(logits, labels, num_items_in_batch)
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
        num_items_in_batch: Items = None,
    ) -> TokenClassifierOutput:
        """`labels` are 1 for replaced tokens and 0 for others; -100 and padding do not count."""
        inputs = self.to_inputs(input_ids, attention_mask, token_type_ids, position_ids)
        states = self.encoder(inputs).states.flatten(0, 1)  # (B, S, D) -> (BS, D)
        scores = self.head.head(states).view(input_ids.shape)  # (BS) -> (B, S)
        loss = None
        if labels is not None:
            if attention_mask is not None:
                labels = labels.masked_fill(attention_mask != 1, IGNORED)
            weights, targets = (labels != IGNORED).to(scores.dtype), labels.to(scores.dtype)
            total = F.binary_cross_entropy_with_logits(scores, targets, weights, reduction="sum")
            loss = mean_loss(total, labels, num_items_in_batch)
        return TokenClassifierOutput(loss=loss, logits=scores)


class ToolkitForTokenClassification(ToolkitPreTrainedModel):
    """The task pos_tagging: scores of the tags at every token, that of a word at its first.

    If the task averages over the subwords of a word, so do the scores of the word.
    """

    tasks = ("pos_tagging",)

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "B S"],
        attention_mask: Shaped[Tensor, "B S"] | None = None,
        token_type_ids: Int[Tensor, "B S"] | None = None,
        position_ids: Int[Tensor, "B S"] | None = None,
        char_ids: Int[Tensor, "B S C"] | None = None,
        labels: Int[Tensor, "B S"] | None = None,
        num_items_in_batch: Items = None,
    ) -> TokenClassifierOutput:
        """`labels` are -100 where a token has no tag, as in padding."""
        inputs = self.to_inputs(input_ids, attention_mask, token_type_ids, position_ids, char_ids)
        logits = self.head.scores(self.encoder, inputs, flat_indices(inputs, input_ids.shape[1]))
        loss = cross_entropy(logits, labels, num_items_in_batch)
        return TokenClassifierOutput(loss=loss, logits=logits.unflatten(0, input_ids.shape))


class ToolkitForQuestionAnswering(ToolkitPreTrainedModel):
    """The task squad: scores of every token as the first and as the last one of the answer."""

    tasks = ("squad",)

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "B S"],
        attention_mask: Shaped[Tensor, "B S"] | None = None,
        token_type_ids: Int[Tensor, "B S"] | None = None,
        position_ids: Int[Tensor, "B S"] | None = None,
        start_positions: Int[Tensor, " B"] | None = None,
        end_positions: Int[Tensor, " B"] | None = None,
    ) -> QuestionAnsweringModelOutput:
        """Positions outside the row do not count in the loss, the mean of both cross entropies."""
        inputs = self.to_inputs(input_ids, attention_mask, token_type_ids, position_ids)
        separators = inputs.tokens == self.config.sep_token_id
        allowed = (separators.cumsum(1) > 0) & ~separators  # the passage, after the first [SEP]
        if inputs.padding is not None:
            allowed &= ~inputs.padding
        first = torch.arange(allowed.shape[1], device=allowed.device) == 0  # [CLS]
        start, end = self.head.scores(self.encoder, inputs, allowed | first)
        loss = None
        if start_positions is not None and end_positions is not None:
            losses = [
                F.cross_entropy(
                    scores, truth.clamp(0, scores.shape[1]), ignore_index=scores.shape[1]
                )
                for scores, truth in ((start, start_positions), (end, end_positions))
            ]
            loss = sum(losses) / 2
        return QuestionAnsweringModelOutput(loss=loss, start_logits=start, end_logits=end)


class GenerativeToolkitModel(ToolkitPreTrainedModel, GenerationMixin):
    """A model that `generate` decodes with, without a cache: every step reads the whole text."""

    encoder: GenerativeModel

    def __init__(self, config: ToolkitConfig) -> None:
        super().__init__(config)
        self.encoder.main_input_name = "input_ids"  # type: ignore[assignment]  # generate reads it
        self.generation_config = to_generation_config(config)

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
        flat = states.flatten(0, 1)
        if isinstance(self.head, Hybrid):
            scores = self.head.head(flat, self.get_input_embeddings().weight)
        else:
            scores = self.encoder.scores(flat)
        return scores.unflatten(0, states.shape[:2])


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
        states = model.encoder(model.to_inputs(input_ids, attention_mask)).states
        return BaseModelOutput(last_hidden_state=states)


class ToolkitForConditionalGeneration(GenerativeToolkitModel):
    """Translation and denoising: scores of the token after each position of the target."""

    tasks = ("translation", "denoising")

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
        num_items_in_batch: Items = None,
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
        loss = cross_entropy(logits.flatten(0, 1), labels, num_items_in_batch)
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
    """Scores of the token after each position, which a model trained with hybrid also gives if it
    reads from left to right.
    """

    tasks = ("language_modeling", "hybrid")

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "B T"],
        attention_mask: Shaped[Tensor, "B T"] | None = None,
        labels: Int[Tensor, "B T"] | None = None,
        num_items_in_batch: Items = None,
    ) -> CausalLMOutput:
        """`labels` are the tokens themselves, -100 in padding, which must be on the right."""
        # in training the check would wait for the GPU, and a graph cannot make it
        checks = not (torch.compiler.is_compiling() or (self.training and input_ids.is_cuda))
        if attention_mask is not None and checks and bool((attention_mask[:, 0] == 0).any()):
            raise ValueError(
                "Padding must be on the right: positions are counted from the first column. To "
                "generate, pass one prompt at a time, or prompts of equal length."
            )
        inputs = self.to_inputs(input_ids)._replace(causal=True)
        logits = self.scores(self.encoder(inputs).states)
        loss = None
        if labels is not None:  # copies the logits
            loss = cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:], num_items_in_batch)
        return CausalLMOutput(loss=loss, logits=logits)
