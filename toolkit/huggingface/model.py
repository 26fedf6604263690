"""Base class of the toolkit's models in Transformers, and the encoder without a head.

B sentences   S tokens of a sentence   C characters of a word   D model width
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Int, Shaped
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import can_return_tuple

from toolkit.common.registry import TASKS
from toolkit.huggingface.config import (
    CAUSAL_CLASSES,
    ENCODER_CLASSES,
    GENERATIVE_CLASSES,
    MODULE,
    ToolkitConfig,
    load_plugins,
    of_hub,
    read_files,
    to_generation_config,
    write_files,
)
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import EncoderModel, Inputs, LayeredEncoder
from toolkit.tasks.build import build_learner
from toolkit.tasks.task import EncoderFactory


class ToolkitPreTrainedModel(PreTrainedModel):
    """An encoder, and in subclasses the task that has its heads.

    Parameters have the names of the learner, but `task.NAME` in place of `task`: the head of
    another task never shares a name.
    """

    config_class = ToolkitConfig
    main_input_name = "input_ids"
    accepts_loss_kwargs = True
    """Transformers' Trainer passes the number of labels of all accumulated batches."""
    tasks: ClassVar[tuple[str, ...]] = ()
    """Tasks that have the heads of the class; the first replaces a task that is not derived from
    any. Without them, the model is the encoder alone."""
    encoder: EncoderModel

    def __init__(self, config: ToolkitConfig) -> None:
        super().__init__(config)
        self.export_files: dict[str, bytes] = {}
        """Files of the folder it was loaded from that save_pretrained writes again."""
        if not self.tasks:
            self.encoder = EncoderFactory(config.to_run().arch, config.label_sizes())()
        else:
            if not is_derived_task(str(config.task["name"]), self.tasks):
                config.task = {"name": self.tasks[0]}
            run = config.to_run()
            learner = build_learner(run.arch, run.task, config.label_sizes())
            self.encoder, self.task = learner.encoder, nn.ModuleDict({run.task.name: learner.task})
        self.post_init()

    @property
    def head(self) -> Any:
        """The task that has the heads."""
        return self.task[self.config.task["name"]]

    def to_inputs(
        self,
        input_ids: Int[Tensor, "B S"],
        attention_mask: Shaped[Tensor, "B S"] | None = None,
        token_type_ids: Int[Tensor, "B S"] | None = None,
        position_ids: Int[Tensor, "B S"] | None = None,
        char_ids: Int[Tensor, "B S C"] | None = None,
    ) -> Inputs:
        """The encoder's inputs, padded to the only length that it reads if it has one."""
        if self.encoder.is_word_level and char_ids is None and self.config.padding_char_ids:
            raise ValueError("char_ids are required: pass all that the tokenizer returns.")
        inputs = Inputs(
            input_ids,
            positions=position_ids,
            segments=token_type_ids,
            padding=None if attention_mask is None else find_padding(attention_mask),
        )
        missing = max(0, (self.encoder.fixed_length or 0) - input_ids.shape[1])
        if missing:
            inputs = inputs._replace(tokens=F.pad(input_ids, (0, missing)))
        if char_ids is None:
            return inputs
        char_ids = F.pad(char_ids, (0, 0, 0, missing))
        is_word = char_ids.any(-1, keepdim=True)  # every character of a word has an id above 0
        char_ids = torch.where(is_word, char_ids, char_ids.new_tensor(self.config.padding_char_ids))
        words = char_ids.flatten(0, 1)
        if torch.compiler.is_exporting():  # as distinct, since their number would depend on data
            index = torch.arange(words.shape[0], device=words.device)
        else:
            words, index = words.unique(dim=0, return_inverse=True)
        return inputs._replace(char_ids=words, word_index=index.view(inputs.tokens.shape))

    def get_input_embeddings(self) -> nn.Embedding:
        """The token embedding."""
        return self.encoder.token_embedding

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Raise an error: the vocabulary is fixed."""
        raise NotImplementedError(
            "The toolkit's models keep their vocabulary: their heads share the table. Train a "
            "tokenizer with the tokens that you need."
        )

    def _init_weights(self, module: nn.Module) -> None:
        """Nothing: the toolkit's constructors initialize their weights."""

    @classmethod
    def get_init_context(cls, *args: Any, **kwargs: Any) -> list[Any]:
        """Those of Transformers in which constructors can initialize weights."""
        meta, disabling = torch.device("meta"), ("no_init_weights", "init_empty_weights")
        return [
            it
            for it in super().get_init_context(*args, **kwargs)
            # the latter are context managers that are generators, in Transformers 4
            if it != meta and getattr(getattr(it, "func", None), "__name__", "") not in disabling
        ]

    def _move_missing_keys_from_meta_to_device(self, *args: Any, **kwargs: Any) -> None:
        """Keep what constructors initialized: new heads, and buffers that no file has."""
        self.to(self.get_input_embeddings().weight.device)

    _move_missing_keys_from_meta_to_cpu = _move_missing_keys_from_meta_to_device
    """The name in Transformers 4."""

    @classmethod
    def register_for_auto_class(cls, auto_class: object = "AutoModel") -> None:
        """Nothing: save_pretrained must not copy this file next to the weights."""

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any
    ) -> ToolkitPreTrainedModel:
        """As in Transformers; `trust_remote_code` loads the plugin that an export carries."""
        name, config = str(pretrained_model_name_or_path or ""), kwargs.get("config")
        if not isinstance(config, ToolkitConfig):
            config = ToolkitConfig.from_dict(
                ToolkitConfig.get_config_dict(name, **of_hub(kwargs))[0]
            )
        load_plugins(config, name, kwargs)
        loaded = super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        model.export_files = read_files(config, name, kwargs) if name else {}
        return loaded

    def save_pretrained(self, save_directory: Any, *args: Any, **kwargs: Any) -> None:
        """As in Transformers, with the files that make the folder loadable by the Auto classes."""
        generative = isinstance(self.encoder, GenerativeModel)
        classes = GENERATIVE_CLASSES if generative else ENCODER_CLASSES
        if is_derived_task(str(self.config.task["name"]), ("hybrid",)):
            classes = classes | CAUSAL_CLASSES
            to_generation_config(self.config).save_pretrained(save_directory)
        classes = {"AutoConfig": "ToolkitConfig", **classes}
        self.config.auto_map = {auto: f"{MODULE}.{name}" for auto, name in classes.items()}
        if kwargs.get("is_main_process", True):  # first, since push_to_hub uploads the folder
            write_files(Path(save_directory), self.config, self.export_files)
        super().save_pretrained(save_directory, *args, **kwargs)


def is_derived_task(name: str, bases: Sequence[str]) -> bool:
    """Whether a task is one of `bases`, or a class derived from one."""
    classes = tuple(TASKS[base].factory for base in bases)
    return name in TASKS.names() and issubclass(TASKS[name].factory, classes)


class ToolkitModel(ToolkitPreTrainedModel):
    """An encoder: the states of all tokens."""

    _keys_to_ignore_on_load_unexpected = [r"^task\."]  # noqa: RUF012

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "B S"],
        attention_mask: Shaped[Tensor, "B S"] | None = None,
        token_type_ids: Int[Tensor, "B S"] | None = None,
        position_ids: Int[Tensor, "B S"] | None = None,
        char_ids: Int[Tensor, "B S C"] | None = None,
        output_hidden_states: bool | None = None,
    ) -> BaseModelOutput:
        """With `output_hidden_states`, also the states of the embeddings and of every layer."""
        inputs = self.to_inputs(input_ids, attention_mask, token_type_ids, position_ids, char_ids)
        length = input_ids.shape[1]
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        if not output_hidden_states:
            return BaseModelOutput(last_hidden_state=self.encoder(inputs).states[:, :length])
        if not isinstance(self.encoder, LayeredEncoder):
            raise ValueError(
                f"{self.config.arch['name']} does not return the states of its layers. Omit "
                f"output_hidden_states."
            )
        states = tuple(layer[:, :length] for layer in self.encoder.layer_states(inputs))
        return BaseModelOutput(last_hidden_state=states[-1], hidden_states=states)


def find_padding(attention_mask: Shaped[Tensor, "B S"]) -> Shaped[Tensor, "B S"] | None:
    """True at padding; None without any, which only a CPU can tell without waiting."""
    padding = attention_mask == 0
    tells = padding.device.type == "cpu" and not torch.compiler.is_compiling()
    return None if tells and not padding.any() else padding


def flat_indices(inputs: Inputs, length: int) -> Int[Tensor, " N"]:
    """Flat indices of the first `length` tokens of every sentence."""
    rows, width = inputs.tokens.shape
    starts = torch.arange(rows, device=inputs.tokens.device)[:, None] * width
    return (starts + torch.arange(length, device=starts.device)).flatten()
