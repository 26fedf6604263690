import shutil
from dataclasses import replace

import pytest
import torch

from toolkit import load_checkpoint
from toolkit.checkpoints.load import MODEL, read_config
from toolkit.checkpoints.save_folder import read_manifest
from toolkit.checkpoints.tensor_files import read_tensors, write_tensors
from toolkit.commands.average import average, average_tensors
from toolkit.commands.validate import evaluate_checkpoints
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.checkpoints import AverageConfig, ValidateConfig
from toolkit.distributed import World
from toolkit.training.run import TrainingRun, run


@pytest.fixture(scope="module")
def several(finished, tmp_path_factory):
    """Checkpoints of updates 2, 4, 6 and 8, and of 5 and 10, where epochs end."""
    c, _ = read_config(finished / "checkpoint_last")
    folder = tmp_path_factory.mktemp("several") / "run"
    often = {"save_interval_updates": 2, "keep_interval_updates": 0}
    run(replace(c, checkpoint=replace(c.checkpoint, save_dir=str(folder), **often)))
    return folder


@pytest.fixture
def trained(several, tmp_path):
    return shutil.copytree(several, tmp_path / "run", symlinks=True)


def averaged(output, *paths, **options):
    return average(AverageConfig(paths=[str(p) for p in paths], output=str(output), **options))


def parts(folder):
    return [path.rpartition("_u")[2] for path in read_manifest(folder).averaged]


@pytest.mark.slow
def test_average_is_the_mean_of_every_tensor(trained, tmp_path):
    names = ["checkpoint_e1_u2", "checkpoint_e1_u4", "checkpoint_e2_u6"]
    found = read_tensors(averaged(tmp_path / "mean", *(trained / n for n in names)) / MODEL)
    all_three = [read_tensors(trained / name / MODEL) for name in names]
    assert found.keys() == all_three[0].keys()
    for name, tensor in found.items():
        wanted = sum(tensors[name].double() for tensors in all_three) / 3
        assert torch.equal(tensor, wanted.float()) and tensor.dtype == all_three[0][name].dtype


def test_average_works_like_any_checkpoint(trained, tmp_path, config, data):
    folder = averaged(tmp_path / "mean", trained, last=2)
    learner = load_checkpoint(folder)
    words = read_tensors(folder / MODEL)["encoder.embeddings.words.weight"]
    assert torch.equal(learner.encoder.token_embedding.weight, words)
    found = evaluate_checkpoints(ValidateConfig(dirs=[str(data)], path=[str(folder)]))
    assert found[str(folder)]["valid"]["examples"] == 9
    start = TrainingRun(config(finetune_from=str(folder), save_dir=str(tmp_path / "more")), World())
    start.close()
    assert torch.equal(start.trainer.learner.encoder.token_embedding.weight, words)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"last": 3}, ["6", "8", "10"]),
        ({"last": 2, "kind": "epochs"}, ["5", "10"]),
        ({"last": 2, "kind": "updates"}, ["6", "8"]),
    ],
)
def test_average_selects_the_newest_of_a_save_folder(trained, tmp_path, options, wanted):
    assert parts(averaged(tmp_path / "mean", trained, **options)) == wanted


@pytest.mark.parametrize("number", [0, 1])
def test_average_rejects_weights_that_are_not_finite(trained, tmp_path, number):
    folders = [trained / "checkpoint_e1_u2", trained / "checkpoint_e1_u4"]
    tensors = read_tensors(folders[number] / MODEL)
    tensors["encoder.embeddings.words.weight"][3] = torch.nan
    write_tensors(folders[number] / MODEL, tensors)
    with pytest.raises(ToolkitError, match=rf"{folders[number].name}/model.* are not finite"):
        average_tensors(folders)


def test_average_rejects_an_existing_output(trained, tmp_path):
    with pytest.raises(ToolkitError, match=r"must name a new folder, but .*run exists"):
        averaged(tmp_path / "run", trained, last=2)


def test_average_rejects_impossible_selections(trained, tmp_path):
    last = trained / "checkpoint_last"
    for paths, options, message in (
        ([trained], {}, r"is a save folder with 6 checkpoints"),
        ([trained], {"last": 9}, r"--last 9 requires as many checkpoints, but .* has 6. Lower"),
        ([last], {}, r"Name at least two checkpoints to average; only"),
        ([last, trained / "checkpoint_e2_u10"], {}, r"must name different files"),
        ([tmp_path / "none", last], {}, r"No such checkpoint: .*none"),
    ):
        with pytest.raises(ToolkitError, match=message):
            averaged(tmp_path / "mean", *paths, **options)
    assert not (tmp_path / "mean").exists()


def test_average_rejects_different_models(trained, tmp_path, config):
    run(config(save_dir=str(tmp_path / "other"), max_update=1, **{"arch.radius": 3}))
    paths = [folder / "checkpoint_last" for folder in (trained, tmp_path / "other")]
    with pytest.raises(ToolkitError, match=r"must have the same arch .* arch.radius is 8 and 3\."):
        averaged(tmp_path / "mean", *paths)


def test_average_rejects_mismatched_tensors(tmp_path):
    def checkpoint(name, **tensors):
        (tmp_path / name).mkdir()
        write_tensors(tmp_path / name / MODEL, tensors)
        return tmp_path / name

    half = torch.tensor([1.0, 2.0], dtype=torch.bfloat16)
    one = checkpoint("one", w=half, count=torch.tensor([3]))
    same = checkpoint("same", w=3 * half, count=torch.tensor([3]))
    found = average_tensors([one, same])
    assert found["w"].dtype == torch.bfloat16 and found["w"].tolist() == [2, 4]
    assert found["count"].tolist() == [3]
    other = checkpoint("other", w=half, count=torch.tensor([4]))
    with pytest.raises(ToolkitError, match=r"count is not floating-point and differs"):
        average_tensors([one, other])
    with pytest.raises(ToolkitError, match=r"the same tensors to be averaged, .* missing: count"):
        average_tensors([one, checkpoint("less", w=half)])
