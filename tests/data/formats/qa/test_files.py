from __future__ import annotations

import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import FORMATS


def names(format_name, **given):
    config = preprocess_config(format=format_name, **{k: str(v) for k, v in given.items()})
    files = FORMATS[format_name].factory(config.format.config, config).list_files()
    return {split: [path.name for path in paths] for split, paths in files.items()}


def test_folder_stands_for_the_files_of_all_splits(write_files, tmp_path):
    for name in ("squad/train-v2.0.json", "squad/dev-v2.0.json", "swag/train.csv", "swag/val.csv"):
        write_files(name, "x")
    found = names("squad", trainpref=tmp_path / "squad")
    assert found == {"train": ["train-v2.0.json"], "valid": ["dev-v2.0.json"]}
    assert names("swag", trainpref=tmp_path / "swag")["valid"] == ["val.csv"]


def test_folder_with_two_versions_is_rejected(write_files, tmp_path):
    for name in ("train-v2.0.json", "dev-v1.1.json.gz", "dev-v1.1.json", "dev-v2.0.json"):
        write_files(f"squad/{name}", "x")
    message = r"validpref folder .*/squad must hold one version .* dev-v1.1.json.* and dev-v2.0"
    with pytest.raises(ToolkitError, match=message):
        names("squad", trainpref=tmp_path / "squad")
    assert names("squad", trainpref=tmp_path / "squad/train-v2.0.json")["train"]


def test_splits_of_race_are_folders(write_files, tmp_path):
    for name in ("train/high/1.txt", "dev/middle/2.txt"):
        write_files(f"RACE/{name}", "x")
    assert names("race", trainpref=tmp_path / "RACE") == {"train": ["train"], "valid": ["dev"]}
    one = names("race", validpref=f"{tmp_path / 'RACE/dev'},{tmp_path / 'RACE/train/high'}")
    assert one == {"valid": ["dev", "high"]}


def test_missing_folders_are_named(tmp_path):
    with pytest.raises(ToolkitError, match=r"No such file: .*nowhere \(trainpref\)"):
        names("race", trainpref=tmp_path / "nowhere")
    with pytest.raises(ToolkitError, match=r"No such file: .*nowhere \(trainpref\)"):
        names("squad", trainpref=tmp_path / "nowhere")
