"""ConvBERT: self-attention mixed with span-based dynamic convolution (Jiang et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_arch
from toolkit.config.declared import ADVANCED, Rate, Size
from toolkit.models.encoder import Encoder, check_multiple
from toolkit.models.interface import Sizes
from toolkit.models.positions import PositionConfig, build_encoder, build_projections, build_scores
from toolkit.nn.attention import (
    Attention,
    KernelConvolution,
    MixedValues,
    PlainConvolution,
    SpanKernel,
    TokenKernel,
)
from toolkit.nn.layers import GATED


@dataclass(frozen=True, kw_only=True)
class ConvBertConfig(PositionConfig):
    """Options of ConvBERT."""

    max_positions: Size = 512
    """Rows of the position table: maximum number of tokens per sentence."""
    head_ratio: Size = 2
    """heads / head_ratio heads attend, at least one, and as many convolve."""
    kernel_size: Size = 9
    """Kernel size of the convolutions, in tokens; odd."""
    groups: Size = 1
    """Number of channel groups of the feed-forward networks."""
    conv_type: Literal["span", "dynamic", "conventional", "none"] = "span"
    """Convolution of the other heads. span: kernels from each token's neighborhood; dynamic: from
    the token alone; conventional: a separable convolution; none: no such heads."""
    share_value: bool = False
    """Convolve the values of self-attention, as in the paper's eq. 6, not separate ones (span,
    dynamic)."""
    convolve_padding: bool = field(default=False, metadata=ADVANCED)
    """Let convolutions see padding, as in the authors' code: scores then depend on the batch."""
    depthwise_bias: bool = field(default=False, metadata=ADVANCED)
    """Add a bias to depthwise convolutions (Chang et al. 2021; span, conventional)."""
    renormalize_at_boundaries: bool = field(default=False, metadata=ADVANCED)
    """Normalize kernels over taps inside the sentence only (Chang et al. 2021; span, dynamic)."""
    kernel_dropout: Rate = 0.0
    """Dropout rate of the kernels' weights (span, dynamic)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.heads > self.head_ratio:
            check_multiple("heads", self.heads, "head_ratio", self.head_ratio)
        check_multiple("width", self.width, "groups", self.groups)
        if self.feed_forward_width is not None:
            check_multiple("feed_forward_width", self.feed_forward_width, "groups", self.groups)
        if self.groups > 1 and self.activation in GATED:
            raise ToolkitError(
                f"arch.groups must be 1 with arch.activation {self.activation}, whose halves are "
                f"no groups, but is {self.groups}. Choose gelu, or omit arch.groups."
            )
        if self.kernel_size % 2 == 0:
            raise ToolkitError(
                f"arch.kernel_size must be odd, but is {self.kernel_size}. Choose "
                f"{self.kernel_size - 1} or {self.kernel_size + 1}."
            )

    @property
    def attention_heads(self) -> int:
        """Number of heads that attend; as many convolve."""
        return max(1, self.heads // self.head_ratio)


@register_arch("convbert_tiny", ConvBertConfig(layers=2, width=128, heads=2, embedding_width=64))
@register_arch("convbert_small", ConvBertConfig(width=256, heads=4, embedding_width=128))
@register_arch(
    "convbert_small_chang",
    ConvBertConfig(
        width=256,
        heads=4,
        embedding_width=128,
        max_positions=128,
        depthwise_bias=True,
        renormalize_at_boundaries=True,
        kernel_dropout=0.1,
    ),
)
@register_arch(
    "convbert_medium_small", ConvBertConfig(width=384, heads=8, embedding_width=128, groups=2)
)
@register_arch("convbert", ConvBertConfig())
def convbert(c: ConvBertConfig, sizes: Sizes) -> Encoder:
    """Half of the heads attend to all tokens, the others convolve neighboring tokens (eq. 6)."""
    return build_encoder(
        c, sizes, lambda: build_attention(c), convolves=c.conv_type != "none", groups=c.groups
    )


def build_attention(c: ConvBertConfig) -> Attention:
    """Self-attention of a layer, mixed with a convolution if one is configured."""
    heads, attention_map = c.attention_heads, build_scores(c, c.attention_heads)
    inner, convolution = heads * c.head_width, build_convolution(c)
    if convolution is None:
        return Attention(c.width, build_projections(c, heads), attention_map, context_width=inner)
    separate_values = c.conv_type in ("span", "dynamic") and not c.share_value
    return Attention(
        c.width,
        build_projections(c, heads, convolution_values=separate_values),
        attention_map,
        MixedValues(convolution, sees_padding=c.convolve_padding),
        context_width=2 * inner,
    )


def build_convolution(c: ConvBertConfig) -> KernelConvolution | PlainConvolution | None:
    """The convolution of a row of the paper's Table 2."""
    shape = c.attention_heads, c.head_width, c.kernel_size // 2
    if c.conv_type == "none":
        return None
    if c.conv_type == "conventional":
        return PlainConvolution(c.width, *shape, depthwise_bias=c.depthwise_bias)
    renormalize, bias = c.renormalize_at_boundaries, c.depthwise_bias
    if c.conv_type == "dynamic":
        return KernelConvolution(TokenKernel(*shape, renormalize=renormalize), c.kernel_dropout)
    kernel = SpanKernel(c.width, *shape, renormalize=renormalize, depthwise_bias=bias)
    return KernelConvolution(kernel, c.kernel_dropout)
