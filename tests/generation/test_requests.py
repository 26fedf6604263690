import pytest

from toolkit.generation.generate import GenerationRequest, batch_requests


def grouped(lengths, **options):
    items = [GenerationRequest(n, "", [0] * length) for n, length in enumerate(lengths)]
    settings = {"max_tokens": 100, "batch_size": 100, "same_source_length": False, **options}
    batches = list(batch_requests(items, **settings))
    assert sorted(item.number for batch in batches for item in batch) == list(range(len(items)))
    return [[len(item.source) for item in batch] for batch in batches]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, [[7, 5, 5, 2, 0]]),
        ({"batch_size": 2}, [[7, 5], [5, 2], [0]]),
        ({"max_tokens": 16}, [[7, 5], [5, 2], [0]]),
        ({"same_source_length": True}, [[7], [5, 5], [2], [0]]),
    ],
)
def test_batches_have_requests_of_similar_length_within_the_limits(options, wanted):
    assert grouped([5, 2, 7, 0, 5], **options) == wanted


def test_batches_count_references_like_sources():
    items = [
        GenerationRequest(n, "", [0], [0] * length) for n, length in enumerate([5, 2, 7, 0, 5])
    ]
    batches = batch_requests(items, max_tokens=16, batch_size=100, same_source_length=True)
    assert [[len(item.target) for item in batch] for batch in batches] == [[7, 5], [5, 2], [0]]
