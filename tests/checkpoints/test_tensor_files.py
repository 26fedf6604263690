import json
import warnings

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.distributed import checkpoint as dcp

from toolkit.checkpoints.tensor_files import open_tensors, write_shard
from toolkit.common.errors import ToolkitError
from toolkit.distributed.data_parallel import apply_fsdp


class Tables(nn.Module):
    def __init__(self):
        super().__init__()
        self.seven, self.one = nn.Linear(2, 7), nn.Parameter(torch.randn(1, 3))


def tables():
    torch.manual_seed(0)
    return Tables()


@pytest.fixture
def shares(ranks, tmp_path):
    """The shards of some ranks, of tensors with seven rows and with one."""

    def write(world):
        learner = tables()
        apply_fsdp(learner, [], world)
        mine = {**learner.state_dict(), "one::step": torch.tensor(3.0)}
        write_shard(tmp_path / f"{world.rank}.safetensors", mine, is_main=world.is_main)

    ranks(write, 3)
    return sorted(tmp_path.glob("*.safetensors"))


def test_shards_of_all_ranks_form_the_whole_tensor(shares):
    found = open_tensors(shares)
    for name, tensor in tables().state_dict().items():
        assert found[name].shape == tensor.shape and torch.equal(found[name][...], tensor)
        assert torch.equal(found[name][:], tensor)
    assert found["one::step"].shape == () and found["one::step"][...] == 3


def test_lazy_tensor_reads_rows_across_files(shares):
    table, found = tables().seven.weight, open_tensors(shares)["seven.weight"]
    for begin in range(8):
        for end in range(begin, 8):
            assert torch.equal(found[begin:end], table[begin:end])


def test_torch_distributed_checkpoint_reads_the_shards(shares):
    wanted = tables().state_dict()
    found = {name: torch.zeros_like(tensor) for name, tensor in wanted.items()}
    reader = dcp.HuggingFaceStorageReader(str(shares[0].parent))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about reading in a single process
        dcp.load(found, storage_reader=reader, no_dist=True)
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_open_tensors_reports_a_missing_shard(shares):
    with pytest.raises(ToolkitError, match=r"continue with row 0 of seven\.\w+, but has shape"):
        open_tensors(shares[1:])


@pytest.mark.parametrize(
    "header",
    [*("{", '{"a": 3}', '{"a": {"saved_offsets": ["x"]}}', '{"a": {"saved_offsets": []}}')],
)
def test_open_tensors_rejects_malformed_offsets(tmp_path, header):
    file = tmp_path / "a.safetensors"
    save_file({"a": torch.ones(2)}, file, {"DCP_SHARDING_INFO": header})
    with pytest.raises(ToolkitError, match=r"a\.safetensors must hold safetensors, but does not"):
        open_tensors([file])


def test_open_tensors_rejects_a_gap_between_offsets(tmp_path):
    file = tmp_path / "a.safetensors"
    save_file(
        {"a": torch.ones(2)}, file, {"DCP_SHARDING_INFO": json.dumps({"a": {"saved_offsets": [1]}})}
    )
    with pytest.raises(ToolkitError, match=r"continue with row 0 of a, but has shape \[2\] from"):
        open_tensors([file])
