import pytest
import torch

from toolkit.nn.attention import AttentionInputs, BucketBias, Offsets, SequenceContext
from toolkit.nn.attention.position_bias import bucket_indices


def projected(queries, keys):
    q, k = torch.randn(2, 3, queries, 4), torch.randn(2, 3, keys, 4)
    offsets = Offsets(None, keys, q.device, query_start=keys - queries)
    return AttentionInputs(q, k, k, torch.randn(2, queries, 12), SequenceContext(offsets))


@pytest.mark.parametrize("left_only", [False, True])
def test_every_pair_of_places_reads_the_number_of_its_bucket(left_only):
    term = BucketBias(3, 8, 20, left_only=left_only)
    torch.nn.init.normal_(term.numbers)
    bias = term(projected(30, 30))[0]
    for i, j in torch.cartesian_prod(torch.arange(30), torch.arange(30)).tolist():
        bucket = bucket_indices(torch.tensor([j - i]), 8, 20, left_only=left_only)
        assert torch.equal(bias[:, i, j], term.numbers[:, bucket[0]])


@pytest.mark.parametrize("queries", [1, 4])
def test_later_queries_read_what_they_would_among_all(queries):
    term = BucketBias(3, 8, 20, left_only=True)
    torch.nn.init.normal_(term.numbers)
    whole = term(projected(30, 30))
    assert torch.equal(term(projected(queries, 30)), whole[:, :, 30 - queries :])


@pytest.mark.parametrize("left_only", [False, True])
def test_buckets_are_those_of_hugging_faces_t5(left_only):
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    offsets = torch.arange(-300, 301)
    want = t5.T5Attention._relative_position_bucket(offsets, not left_only, 32, 128)
    assert torch.equal(bucket_indices(offsets, 32, 128, left_only=left_only), want)


def test_near_offsets_have_buckets_of_their_own_and_far_ones_share_the_last():
    buckets = bucket_indices(-torch.arange(200), 32, 128, left_only=True).tolist()
    assert buckets[:16] == list(range(16)) and set(buckets[128:]) == {31}
