import json
import math

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.load import compose
from toolkit.config.serialize import describe_run_plugins, from_dict, to_dict

NAMED = {"arch": "composite_bert_tiny", "task": "mlm"}


def test_a_run_survives_being_saved_as_json():
    run = compose({**NAMED, "convolve": ["query"], "lr": 1e-5, "max_tokens": 7, "dirs": ["a,b"]})
    assert from_dict(json.loads(json.dumps(to_dict(run)))) == run


def test_infinities_survive_too():
    run = compose({**NAMED, "clip_norm": math.inf})
    assert from_dict(to_dict(run)).training.clip_norm == math.inf


def test_every_section_and_name_is_in_the_saved_run():
    saved = to_dict(compose(NAMED))
    assert saved["arch"]["name"] == "composite_bert_tiny" and saved["criterion"]["name"]
    assert saved["training"]["seed"] == 1


def test_a_field_that_was_not_saved_gets_its_default():
    saved = to_dict(compose({**NAMED, "seed": 5, "patience": 3}))
    del saved["training"]["patience"]
    found = from_dict(saved)
    assert (found.training.seed, found.training.patience) == (5, 0)


@pytest.mark.parametrize(
    ("section", "key", "value", "complaint"),
    [
        ("arch", "layrs", 3, r"no option is called arch.layrs \(saved configuration\). Did you m"),
        ("arch", "name", "no_such", "unknown architecture 'no_such'.*--user-dir"),
        ("arch", "layers", "${oc.env:HOME}", "arch.layers must be a plain value"),
        ("arch", "name", "${oc.env:HOME}", "arch.name must be a plain value"),
        ("training", "seed", "x", "training.seed must be a whole number, but is 'x'"),
        ("training", "_target_", "os.system", "no option is called training._target_"),
    ],
)
def test_a_saved_run_that_was_tampered_with_is_refused(section, key, value, complaint):
    saved = to_dict(compose(NAMED))
    saved[section][key] = value
    with pytest.raises(ToolkitError, match=complaint):
        from_dict(saved)


def test_a_run_of_built_in_components_needs_no_plugins():
    assert describe_run_plugins(compose(NAMED)) == []
