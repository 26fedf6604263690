from toolkit.training.step import TrainingProgress


def test_progress_advances_within_an_epoch_and_into_the_next():
    places = [TrainingProgress()]
    for _ in range(4):
        places.append(places[-1].advance(4, epoch_micro_batches=11))
    assert [(p.update, p.epoch, p.consumed) for p in places] == [
        (0, 1, 0), (1, 1, 4), (2, 1, 8), (3, 2, 0), (4, 2, 4)
    ]  # fmt: skip


def test_latest_epoch_is_that_of_the_latest_update():
    assert TrainingProgress().latest_epoch == 1
    assert TrainingProgress(update=3, epoch=2, consumed=0).latest_epoch == 1
    assert TrainingProgress(update=4, epoch=2, consumed=4).latest_epoch == 2
