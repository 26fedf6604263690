from __future__ import annotations

import torch
from torch.nn import functional as F

from toolkit.models.heads import DetectionHead, OptionHead, Pooler, SentenceHead, SpanHead


def test_detection_head_gives_one_score_per_token():
    torch.manual_seed(0)
    head, states = DetectionHead(6), torch.randn(5, 6)
    inner = F.gelu(states @ head.transform.weight.T + head.transform.bias)
    expected = [head.score.weight[0] @ row + head.score.bias[0] for row in inner]
    torch.testing.assert_close(head(states), torch.stack(expected))


def test_sentence_head_is_linear_in_the_pooled_state():
    torch.manual_seed(0)
    pooler, head, states = Pooler(6), SentenceHead(6, 3, dropout=0.1).eval(), torch.randn(5, 6)
    pooled = torch.tanh(states @ pooler.weight.T + pooler.bias)
    expected = pooled @ head.output.weight.T + head.output.bias
    torch.testing.assert_close(head(pooler(states)), expected)
    assert not torch.equal(head.train()(states), head(states))


def test_option_head_is_linear_with_dropout_in_training():
    torch.manual_seed(0)
    head, states = OptionHead(6, dropout=0.1).eval(), torch.randn(5, 6)
    expected = states @ head.output.weight[0] + head.output.bias
    torch.testing.assert_close(head(states), expected)
    assert not torch.equal(head.train()(states), head(states))


def test_answer_heads_compute_in_fp32_under_autocast():
    torch.manual_seed(0)
    spans, options, states = SpanHead(6), OptionHead(6, dropout=0.0), torch.randn(2, 5, 6)
    number = SentenceHead(6, 1, dropout=0.0)
    with torch.autocast("cpu", torch.bfloat16):
        scores, single, numbers = spans(states), options(states[0]), number(states[0])
    torch.testing.assert_close(numbers, states[0] @ number.output.weight.T + number.output.bias)
    torch.testing.assert_close(scores, states @ spans.weight.T + spans.bias)
    torch.testing.assert_close(single, states[0] @ options.output.weight[0] + options.output.bias)
