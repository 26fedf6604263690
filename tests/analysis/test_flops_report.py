import json

import pytest

from toolkit.analysis.flops import Flops, PassFlops
from toolkit.analysis.flops_report import (
    checkpoint_flops,
    describe_flops,
    flops_record,
    flops_table,
    part_rows,
    print_flops,
    run_flops,
)
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.inspect import FlopsConfig
from toolkit.config.load import compose
from toolkit.data.storage.data_folder import DataFolder
from toolkit.models.interface import Sizes
from toolkit.reporting.json_output import Output

A, F = PassFlops(10, 20), PassFlops(30, 60)
PARTS = {
    "encoder.embeddings": PassFlops(4, 8),
    **{f"encoder.layers.{n}.attention": A for n in range(3)},
    **{f"encoder.layers.{n}.feed_forward": F for n in range(2)},
    "encoder.layers.2.feed_forward": PassFlops(1, 2),
    "task.head": PassFlops(5, 10),
}


def a_run(**options):
    return compose({"arch": "bert_tiny", "task": "mlm", **options})


def flops(**options):
    run = a_run(**options)
    return Flops(run, Sizes(tokens=60), PARTS, sentences=2, tokens=16, micro_batches=3)


def test_part_rows_merge_equal_layers():
    embeddings, layers, last, head = part_rows(PARTS)
    assert (embeddings.name, head.name) == ("encoder.embeddings", "task.head")
    assert (layers.name, layers.alike) == ("encoder layers 1 to 2, each", 2)
    assert layers.each == (40, 80) and layers.inner == (("attention", A), ("feed_forward", F))
    assert last.name == "encoder layer 3" and last.each == (11, 22)


def test_shares_of_parts_sum_to_one():
    found = flops_table(flops())
    shares = [row[-1] for row in found.rows if row[-1] and row[0] != "all"]
    assert sum(float(share.strip("%")) for share in shares) == pytest.approx(100, abs=0.2)
    assert found.rows[-1] == ["all", 100 / 2e6, 200 / 2e6, "100.0%"]


def test_flops_of_a_run_are_updates_times_one_update():
    found = flops(max_update=1000)
    assert found.update == 3 * 300
    assert (flops_record(found)["update"], flops_record(found)["run"]) == (900, 900_000)
    assert describe_flops(found)["update"] == (
        "3 x 2 sentences of 16 tokens: 9.00e+02 FLOP forward and backward"
    )
    assert describe_flops(found)["run"] == "1,000 updates: 9.00e+05 FLOP"


def test_flops_of_an_unlimited_run_have_no_total():
    assert flops_record(flops())["run"] is None
    assert describe_flops(flops())["run"] == "pass --max-update for the total"


def test_flops_of_a_checkpoint_include_updates_so_far(finished):
    found = checkpoint_flops(finished / "checkpoint_last")
    assert (found.sentences, found.micro_batches, found.completed_updates) == (8, 1, 10)
    assert describe_flops(found)["so far"] == f"10 updates: {10 * found.update:.2e} FLOP"
    assert "run" not in describe_flops(found)  # it ends with its epochs


def test_flops_take_the_vocabulary_size_from_data(data):
    asked = FlopsConfig(flops=True)
    symbols = len(DataFolder.open(data).vocabulary)
    assert run_flops(a_run(**{"data.dirs": [str(data)]}), asked).sizes["tokens"] == symbols
    assert run_flops(a_run(), asked).sizes["tokens"] == 30522
    assert run_flops(a_run(), FlopsConfig(flops=True, vocabulary_size=99)).sizes["tokens"] == 99
    with pytest.raises(ToolkitError, match=r"--vocabulary-size cannot be combined with data"):
        run_flops(a_run(**{"data.dirs": [str(data)]}), FlopsConfig(flops=True, vocabulary_size=99))


def test_flops_are_written_as_json(capsys):
    with Output("-") as output:
        print_flops(flops(max_update=10), output)
    captured = capsys.readouterr()
    *parts, whole = map(json.loads, captured.out.splitlines())
    assert parts[0] == {
        "event": "part",
        "part": "encoder.embeddings",
        "forward": 2.0,
        "backward": 4.0,
    }
    assert len(parts) == len(PARTS) and whole["event"] == "flops" and whole["run"] == 9000
    assert "encoder layers 1 to 2, each" in captured.err
