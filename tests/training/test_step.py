from toolkit.training.step import Place


def test_a_place_goes_on_within_the_epoch_and_into_the_next():
    places = [Place()]
    for _ in range(4):
        places.append(places[-1].after(4, in_epoch=11))
    assert [(p.update, p.epoch, p.consumed) for p in places] == [
        (0, 1, 0), (1, 1, 4), (2, 1, 8), (3, 2, 0), (4, 2, 4)
    ]  # fmt: skip


def test_the_latest_epoch_is_that_of_the_update_before():
    assert Place().latest_epoch == 1
    assert Place(update=3, epoch=2, consumed=0).latest_epoch == 1
    assert Place(update=4, epoch=2, consumed=4).latest_epoch == 2
