from toolkit.common.errors import join_first


def test_join_first_lists_the_first_items_and_counts_the_rest():
    assert (
        join_first(["a", "b"]) == "a, b" and join_first("abcdef", 5) == "a, b, c, d, e and 1 more"
    )
    assert join_first(range(3), 20, " ") == "0 1 2"
    assert join_first(range(25), 20, " ").endswith("18 19 and 5 more")
