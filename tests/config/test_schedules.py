import pytest

from toolkit.config.load import compose
from toolkit.config.serialize import from_dict, to_dict


def run_with(options):
    return compose({"arch": "bert_tiny", "task": "mlm", **options})


@pytest.mark.parametrize(
    ("path", "text", "values"),  # after 0, 1, 2, 3 and 4 of 4 epochs
    [
        ("task.mask_rate", "0.4:0.2", [0.4, 0.35, 0.3, 0.25, 0.2]),
        ("task.mask_rate", "0.4@0,0.15@1.5epochs,.1@3epochs", [0.4, 0.4, 0.15, 0.1, 0.1]),
        ("task.mask_rate", "0.4@0, 2e-1@50%, 0.1@75%", [0.4, 0.4, 0.2, 0.1, 0.1]),
        ("task.tokens_per_sample", "64@0,128@1epoch,256@3epochs", [64, 128, 128, 256, 256]),
    ],
)
def test_schedule_has_the_values_that_its_text_says(path, text, values):
    schedule = run_with({path: text}).schedules[path]
    found = [schedule.value(epoch, 4) for epoch in range(5)]
    assert found == pytest.approx(values) and {*map(type, found)} == {type(values[0])}


def test_saved_schedule_is_read_back_and_its_section_has_the_last_value():
    run = run_with({"task.mask_rate": "0.4:0.2", "data.batch_size": "8@0,16@2epochs"})
    assert (run.task.config.mask_rate, run.data.batch_size) == (0.2, 16)
    saved = to_dict(run)
    assert saved["task"]["mask_rate"] == "0.4:0.2" and from_dict(saved) == run
