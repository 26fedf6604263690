import os

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import write_signed_json
from toolkit.data.preprocess import create_output_folder
from toolkit.data.storage.column_files import ColumnWriter
from toolkit.data.storage.meta import build_meta


def filled(folder, text):
    (folder / "meta.json").write_text(text)


def data_folder(folder, tokenizer, kind="text"):
    """As toolkit-preprocess leaves it, with a column."""
    tokenizer.save(folder)
    column = ColumnWriter(folder / "train.tokens", "<u2").finish()
    splits = {"train": {"columns": {"tokens": column}}}
    write_signed_json(
        folder / "meta.json", build_meta(folder, tokenizer, kind=kind, settings={}, splits=splits)
    )


def test_folder_appears_when_all_of_it_is_written(tmp_path):
    with create_output_folder(tmp_path / "new" / "data", overwrite=False) as partial:
        filled(partial, "1")
        assert not (tmp_path / "new" / "data").exists()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["data"]
    assert (tmp_path / "new" / "data" / "meta.json").read_text() == "1"


def test_old_folder_stays_until_the_new_one_is_complete(tmp_path, tokenizer):
    with create_output_folder(tmp_path / "data", overwrite=False) as partial:
        data_folder(partial, tokenizer)
    with create_output_folder(tmp_path / "data", overwrite=True) as partial:
        filled(partial, "new")
        assert (tmp_path / "data" / "dict.txt").exists()
    assert (tmp_path / "data" / "meta.json").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("text", ['{"name": "my recordings"}', "{", ""])
def test_folder_with_a_foreign_meta_json_is_not_overwritten(tmp_path, text):
    filled(tmp_path, text)
    message = f"the content of {tmp_path} is unknown: .* Choose another --destdir, or move it away"
    with pytest.raises(ToolkitError, match=message), create_output_folder(tmp_path, overwrite=True):
        pytest.fail("entered")


@pytest.mark.parametrize("name", ["thesis.doc", "run/checkpoint", "train.txt", "target/notes"])
def test_data_folder_with_other_files_is_not_overwritten(tmp_path, tokenizer, name):
    data_folder(tmp_path, tokenizer)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("")
    message = f"but {tmp_path} also holds {name.split('/')[0]}"
    with pytest.raises(ToolkitError, match=message), create_output_folder(tmp_path, overwrite=True):
        pytest.fail("entered")


@pytest.mark.parametrize("there", [True, False])
def test_link_stays_and_its_target_is_written(tmp_path, there):
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    if there:
        (tmp_path / "disk").mkdir()
    with create_output_folder(tmp_path / "data", overwrite=False) as partial:
        filled(partial, "1")
    assert (tmp_path / "data").is_symlink()
    assert (tmp_path / "disk" / "meta.json").read_text() == "1"
    assert {path.name for path in tmp_path.iterdir()} == {"data", "disk"}


def test_only_folders_of_dead_processes_are_removed(tmp_path):
    dead, alive = (tmp_path / f".data.{n}.tmp" for n in (2**22 + 1, os.getppid()))
    dead.mkdir(), alive.mkdir()
    with create_output_folder(tmp_path / "data", overwrite=False) as partial:
        filled(partial, "1")
    assert not dead.exists() and alive.exists()


def test_unwritable_destination_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(FileExistsError, match="file"),
        create_output_folder(tmp_path / "file" / "data", overwrite=False),
    ):
        pytest.fail("entered")


def test_a_folder_that_another_process_wrote_in_the_meantime_stays(tmp_path):
    with (
        pytest.raises(ToolkitError, match="data must be new, but cannot be made"),
        create_output_folder(tmp_path / "data", overwrite=False) as partial,
    ):
        filled(partial, "later")
        (tmp_path / "data").mkdir()
        filled(tmp_path / "data", "finished")
    assert (tmp_path / "data" / "meta.json").read_text() == "finished"
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
