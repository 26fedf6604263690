import math

from toolkit.optim.schedules import Plateau, PlateauConfig


def factors(values, **options):
    """The factor of a late update after each validation."""
    schedule = Plateau(PlateauConfig(**options), 100)
    result = []
    for update, value in enumerate(values, 1):
        schedule.on_validation(value, update)
        result.append(schedule(99))
    return result


def test_plateau_lowers_the_rate_at_every_validation_without_improvement():
    assert factors([3.0, 2.0, 2.0, 2.5, 1.0], factor=0.5) == [1, 1, 0.5, 0.25, 0.25]


def test_plateau_with_patience_restarts_its_count_after_each_reduction():
    values = [1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5]
    assert factors(values, factor=0.5, patience=1) == [1, 1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125]


def test_plateau_ignores_improvements_below_the_threshold():
    assert factors([1.0, 0.99], threshold=0.05) == [1, 0.1]
    assert factors([-1.0, -1.01], threshold=0.05) == [1, 0.1]
    assert factors([1.0, 0.9], threshold=0.05) == [1, 1]


def test_plateau_treats_nan_as_no_improvement():
    assert factors([math.nan, 2.0, math.nan], factor=0.5) == [0.5, 0.5, 0.25]
    assert factors([math.inf, math.inf], factor=0.5) == [0.5, 0.25]
