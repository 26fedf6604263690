"""Hand-written fast paths, mostly for CPUs.

Each computes the same as its plain form; the test of the same name in `tests/nn/ops` compares them.
Gain is the time of the plain form divided by that of the fast path, with its source: of an update
(b, d), of the operation on a CPU with AVX512_BF16 (a), of generation (c); "-" if it was not
measured separately.

| file | what | gain | plain form |
|---|---|---|---|
| attention | dropout(softmax(q k^T + bias)) v | 1.12 (d), 2-6 in bf16 (a) | torch's SDPA |
| offsets/attention | the same with values by offset | 1.28 (d) | SoftmaxMap.forward |
| offsets/attention | products x_i . y_{j-i}, in blocks of rows | 1.24 (d) | matmul, skew |
| layer_norm | LN(x + dropout(y)), one sum saved | 1.05 (d) | layer_norm(x + dropout(y)) |
| kernels/add_norm | the same on a GPU | - | layer_norm(x + dropout(y)) |
| bias_sums | gradients of biases, summed where they are written; off | - | sum |
| dropout | masks from a hashed counter | 1.08 (d) | F.dropout |
| attention | attention within a window, in blocks | 1.06 (d) | attention |
| banded_convolution | a kernel per token, as products | 1.0 (d), 1.06 in bf16 (b) | tap by tap |
| kernels/banded_convolution | the same on a GPU | - | banded_convolution |
| kernels/depthwise | the same on a GPU, without cuDNN's plan per shape | - | conv1d with groups |
| convolution | relu(conv1d) as a product of windows | 1.0 (d), 1.06 in bf16 (b) | conv1d, relu |
| linear | classes padded to a multiple of 64 on a GPU | - | linear |
| linear | loss and gradient on a GPU | - | log_softmax, gather |
| batched_products | heads as one batch on a GPU, widths aligned | - | matmul |
| mixed_attention | mixed maps, softmax and dropout on a GPU | - | cat, conv2d, prelu |
| linear | packed weights in oneDNN's order, inference | 1.27 in generation (c) | nn.Linear |

(a) benchmarks/attention_paths.py, training.
(b) an update of convbert_small rtd, or of conv_san on UD English EWT, in bf16 with AVX512_BF16,
    benchmarks/fast_paths.py.
(c) Eight sentences by transformer_iwslt with a beam of 4, fp32 or bf16, AVX512; without a report.
(d) benchmarks/reports/2026-11-28-fast-paths.md, fp32, at most 512 tokens, without AVX512.
"""
