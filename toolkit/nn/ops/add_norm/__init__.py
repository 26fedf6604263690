"""The post-norm residual LN(x + dropout(y)): `function` for any device, `operation` on a GPU."""

from toolkit.nn.ops.add_norm.function import add_norm

__all__ = ["add_norm"]
