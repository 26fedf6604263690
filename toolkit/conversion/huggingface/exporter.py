"""From a checkpoint of ours to a folder that Hugging Face Transformers opens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from toolkit.checkpoints.load import SPARE, find, read_config, read_tensors, weights_file
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import read_json
from toolkit.common.registry import ARCHITECTURES
from toolkit.config.run import RunConfig
from toolkit.conversion.huggingface import config_mapping, files
from toolkit.conversion.huggingface.model_types import (
    BERT,
    CONVBERT,
    ELECTRA,
    ENCODER,
    FAMILIES,
    HEAD,
    Family,
)
from toolkit.conversion.huggingface.tokenizer_export import write_tokenizer
from toolkit.conversion.write_checkpoint import ORIGIN, widened
from toolkit.data.tokenizers.tokenizer import Codec
from toolkit.data.tokenizers.wrapped import bare
from toolkit.models.bert import bert
from toolkit.models.convbert import convbert

GENERATOR = "task.generator."
SHARED = tuple(f"{ENCODER}.embeddings.{part}." for part in ("words", "types", "positions", "norm"))


class Net(NamedTuple):
    """An encoder with its head, under the names of a masked language model's learner."""

    arch: Any
    """The config of its architecture."""
    tensors: dict[str, Tensor]
    head: bool
    """Whether it predicts masked tokens."""
    detects: bool = False
    """Whether it tells replaced tokens."""


def net_of(run: RunConfig, tensors: Mapping[str, Tensor], wanted: str | None) -> Net:
    """The only net there is, or the one asked for."""
    if run.task.name != "rtd":
        if wanted is not None:
            raise ToolkitError(
                f"--net must be left out unless the model was trained with --task rtd, but it is "
                f"{wanted} and the task was {run.task.name}."
            )
        return Net(run.arch.config, dict(tensors), run.task.name == "mlm")
    if wanted == "generator":
        return generator(run, tensors)
    own = {name: tensor for name, tensor in tensors.items() if not name.startswith(GENERATOR)}
    return Net(run.arch.config, own, False, True)


def generator(run: RunConfig, tensors: Mapping[str, Tensor]) -> Net:
    """It reads with the discriminator's embedding tables, so they go with it."""
    arch, task = run.arch.config, run.task.config
    inner = arch.embedding_width or arch.width
    arch = replace(arch, **{**arch.scaled(task.generator_size), "embedding_width": inner})
    own = {name: tensor for name, tensor in tensors.items() if name.startswith(SHARED)}
    for name, tensor in tensors.items():
        if name.startswith(f"{GENERATOR}encoder."):
            own[f"{ENCODER}.{name.removeprefix(f'{GENERATOR}encoder.')}"] = tensor
        if name.startswith(f"{GENERATOR}head."):
            own[f"{HEAD}.{name.removeprefix(f'{GENERATOR}head.')}"] = tensor
    return Net(arch, own, True)


COUNTERPARTS = (bert, convbert)
"""Only what these build is what Transformers builds, whatever a plugin calls its own."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What a folder of theirs is made of."""

    family: Family
    config: dict[str, Any]
    tensors: dict[str, Tensor]
    codec: Codec
    left_out: list[str] = field(default_factory=list)
    """Tensors of ours that they have no place for."""
    note: str = ""


def exported(path: Path, *, weights: str = "auto", net: str | None = None) -> Exported:
    """The model of a checkpoint in their names."""
    folder = find(path)
    run, sizes = read_config(folder)
    found = net_of(run, read_tensors(folder / weights_file(folder, weights)), net)
    build: Any = ARCHITECTURES[run.arch.name].build
    refuse_other_architectures(run.arch.name, build, found.arch)
    codec, origin = bare(Codec.load(folder)), origin_of(folder)
    family = family_of(build, found, origin)
    pieces = family.pieces(found.arch.layers, widened=widened(found.arch), head=found.head)
    theirs = {n: t for piece in pieces for n, t in piece.parted(found.tensors[piece.ours]).items()}
    used = {piece.ours for piece in pieces}
    rest = {name: tensor for name, tensor in found.tensors.items() if name not in used}
    rest |= read_tensors(folder / SPARE) if (folder / SPARE).exists() else {}
    heads = [n for n in found.tensors if n.startswith(f"{HEAD}.") and not found.detects]
    known = {name: None if name in heads else family.theirs_of(name) for name in rest}
    theirs |= {name: rest[ours] for ours, name in known.items() if name is not None}
    config = config_mapping.config_of(
        family, found.arch, sizes.tokens, codec.vocabulary.pad, origin
    )
    config["dtype"] = files.dtype_of(theirs)
    if not named(config.get("architectures")):
        config["architectures"] = [class_of(family, found)]
    return Exported(
        family=family,
        config=config,
        tensors=prefixed(family, theirs),
        codec=codec,
        left_out=sorted(name for name, there in known.items() if there is None),
        note=note_of(family, found.arch),
    )


def named(classes: Any) -> bool:
    """Whether a config names its class."""
    return isinstance(classes, list) and bool(classes) and isinstance(classes[0], str)


def origin_of(folder: Path) -> dict[str, Any]:
    """The config.json that a converted checkpoint came with; empty for one trained here."""
    if not (folder / ORIGIN).exists():
        return {}
    found: dict[str, Any] = read_json(folder / ORIGIN)
    return found


def family_of(build: Any, net: Net, origin: Mapping[str, Any]) -> Family:
    """The model type it came from; else BERT, or ELECTRA where BERT has no such thing."""
    if origin.get("model_type") in FAMILIES:
        return FAMILIES[str(origin["model_type"])]
    if build is convbert:
        return CONVBERT
    return ELECTRA if widened(net.arch) or net.detects else BERT


def class_of(family: Family, net: Net) -> str:
    name = {"bert": "Bert", "electra": "Electra", "convbert": "ConvBert"}[family.model_type]
    if net.detects and family is ELECTRA:
        return f"{name}ForPreTraining"
    return f"{name}ForMaskedLM" if net.head else f"{name}Model"


def note_of(family: Family, arch: Any) -> str:
    """What differs although every number is the same."""
    if family is not CONVBERT or arch.padding_in_convolution:
        return ""
    return (
        "Transformers lets convolutions see padding, which this model did not: sentences that are "
        "padded there have slightly other vectors near their ends"
    )


def prefixed(family: Family, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Beside a head, the encoder's names begin with the model type."""
    inner = ("embeddings.", "embeddings_project.", "encoder.", "pooler.")
    if all(name.startswith(inner) for name in tensors):
        return dict(tensors)
    prefix = f"{family.model_type}."
    return {(prefix if n.startswith(inner) else "") + n: t for n, t in tensors.items()}


def refuse_other_architectures(arch: str, build: Any, c: Any) -> None:
    reasons = []
    if build not in COUNTERPARTS:
        reasons = [f"is {arch}"]
    elif c.hidden_position:
        reasons = ["has a row for hidden positions (arch.hidden_position)"]
    elif build is convbert:
        wanted = {
            "conv_type": "span",
            "share_value": False,
            "depthwise_bias": False,
            "normalise_within": False,
            "kernel_dropout": 0.0,
        }
        reasons = [f"has {n} {getattr(c, n)}" for n, v in wanted.items() if getattr(c, n) != v]
        if 2 * c.attention_heads * c.head_width != c.width:
            reasons.append(f"has heads of {c.head_width} that are not half of its width together")
    if reasons:
        raise ToolkitError(
            f"the architecture must be one that Transformers has too, bert or convbert with the "
            f"paper's convolution, but this one {' and '.join(reasons)}. Nothing was written."
        )


def write(target: Path, model: Exported) -> None:
    """The whole folder or nothing."""

    def fill(folder: Path) -> None:
        files.write_config(folder, model.config)
        files.write_tensors(folder, model.tensors)
        write_tokenizer(
            folder,
            model.codec,
            positions=model.config["max_position_embeddings"],
            token_types=model.config["type_vocab_size"],
        )

    files.write_folder(target, fill)
