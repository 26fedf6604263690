"""Hand-written fast paths, mostly for CPUs.

Each computes what its plain form does; a test of the same name in `tests/nn/ops` compares the two.
Gain is the time of the plain form divided by that of the fast path on a CPU with AVX512_BF16, and
its source; "-" where nothing measured it on its own.

| file | what | gain | plain form |
|---|---|---|---|
| attention | dropout(softmax(q k^T + bias)) v | 2-6 in bf16 (a) | scaled_dot_product_attention |
| add_norm | LN(x + dropout(y)), one sum saved | - | layer_norm(x + dropout(y)) |
| dropout | masks from a hashed counter | - | F.dropout |
| skew | taps to score columns by position id | - | gather |
| banded_convolution | one kernel per token, as products | 2.1 in bf16 (b) | unfold, multiply |
| banded_convolution_triton | the same on a GPU; never run on one | - | banded_convolution |
| depthwise | gradient of the taps, tap by tap | up to 2 in bf16 (c) | conv2d with groups |
| convolution | relu(conv1d) as windows by a matrix | - | conv1d |
| channel_mixing | PReLU(1x1 convolution) by sentence | - | cat, conv2d, prelu |
| packed_linear | weights in oneDNN's order, inference | 2.2 in fp32 (c) | nn.Linear |

(a) benchmarks/attention_paths.py, training.
(b) benchmarks/reports/2026-11-21-convbert-block.md: the block at 128 tokens against Hugging Face's.
(c) The file's own docstring, without a report.
"""
