"""Settings of fairseq checkpoints as options of the toolkit's architectures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.conversion.mismatches import Mismatch
from toolkit.conversion.torch_file import OpaqueObject

EPSILON = 1e-5
MAX_LAYERS = 1000
SCALARS = (bool, int, float, str, type(None))
SIZES = {
    "encoder_layers": "layers",
    "encoder_embed_dim": "width",
    "encoder_attention_heads": "heads",
    "encoder_ffn_embed_dim": "feed_forward_width",
}
RATES = {"dropout": "dropout", "attention_dropout": "attention_dropout"}
SUPPORTED: dict[str, str | bool] = {
    "activation_fn": "gelu",
    "encoder_normalize_before": False,
    "untie_weights_roberta": False,
    "no_token_positional_embeddings": False,
    "no_scale_embedding": True,
}
"""Settings with the value that the toolkit supports; older files omit them."""


def read_settings(checkpoint: JsonObject, path: Path) -> JsonObject:
    """The model's settings, under cfg.model or args, depending on fairseq's version."""
    config = unwrap(checkpoint.get("cfg"))
    model = unwrap(config.get("model")) if isinstance(config, dict) else None
    settings = model if isinstance(model, dict) and model else unwrap(checkpoint.get("args"))
    if not isinstance(settings, dict):
        raise ToolkitError(
            f"{path} must contain the model's settings under args or cfg, but does not. Name a "
            f"checkpoint of fairseq-train or a RoBERTa release."
        )
    return {str(name): to_scalar(unwrap(value)) for name, value in settings.items()}


def unwrap(value: Any) -> Any:
    """The dict or value that an opaque object of argparse or OmegaConf stands for.

    Objects in it stay, since malicious settings contain themselves.
    """
    if isinstance(value, OpaqueObject):
        state = value.state if isinstance(value.state, dict) else {}
        return state.get("_val", state.get("_content", state))
    return value


def to_scalar(value: object) -> object:
    """A number, text or None as it is; the name of another value's type."""
    return value if isinstance(value, SCALARS) else type(value).__name__


def setting_mismatches(settings: JsonObject) -> list[Mismatch]:
    """Unsupported settings, and sizes that are not numbers in range."""
    problems = [
        Mismatch("setting", key, str(settings[key]), str(supported))
        for key, supported in SUPPORTED.items()
        if settings.get(key) not in (None, supported)
    ]
    for name in SIZES:
        value = settings.get(name)
        if type(value) is not int or not 0 < value < (MAX_LAYERS if "layers" in name else 1 << 20):
            problems.append(Mismatch("setting", name, str(value), "a number"))
    return problems


def arch_options(settings: JsonObject, positions: int) -> JsonObject:
    """Options of the architecture `bert`."""
    rates = {option: settings.get(name) for name, option in RATES.items()}
    return {
        **{option: settings[name] for name, option in SIZES.items()},
        **{name: float(rate) for name, rate in rates.items() if isinstance(rate, int | float)},
        "max_positions": positions,
        "token_types": 1,
        "norm_epsilon": EPSILON,
    }
