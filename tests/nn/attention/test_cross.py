import math

import torch

from toolkit.nn.attention import Content, CrossAttention, SoftmaxMap

WIDTH, HEADS = 8, 2


def build_attention():
    torch.manual_seed(0)
    return CrossAttention(WIDTH, HEADS, SoftmaxMap(Content(WIDTH // HEADS))).double()


def states(rows, length):
    return torch.randn(rows, length, WIDTH, dtype=torch.float64)


def test_cross_attention_equals_loops_over_the_source():
    cross, x, m = build_attention(), states(1, 3), states(1, 4)
    kv = [cross.key_value.weight @ row + cross.key_value.bias for row in m[0]]
    for i, row in enumerate(x[0]):
        q, context = cross.query.weight @ row + cross.query.bias, []
        for head in range(HEADS):
            channels = slice(head * 4, head * 4 + 4)
            scores = torch.stack([q[channels] @ y[:WIDTH][channels] / math.sqrt(4) for y in kv])
            weights = scores.softmax(0)
            context.append(sum(w * y[WIDTH:][channels] for w, y in zip(weights, kv, strict=True)))
        expected = cross.output.weight @ torch.cat(context) + cross.output.bias
        torch.testing.assert_close(cross(x, (m, None))[0, i], expected, atol=1e-12, rtol=0)
