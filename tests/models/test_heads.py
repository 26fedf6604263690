from __future__ import annotations

import torch
from torch.nn import functional as F

from toolkit.models.heads import DetectionHead


def test_detection_is_one_number_for_each_place():
    torch.manual_seed(0)
    head, states = DetectionHead(6), torch.randn(5, 6)
    inner = F.gelu(states @ head.transform.weight.T + head.transform.bias)
    expected = [head.score.weight[0] @ row + head.score.bias[0] for row in inner]
    torch.testing.assert_close(head(states), torch.stack(expected))
