import pytest

from toolkit.analysis import flops as flops_module
from toolkit.analysis.flops import (
    Flops,
    PassFlops,
    count_flops,
    describe_flops,
    flops_table,
)
from toolkit.cli.inspect import main
from toolkit.common.errors import ToolkitError
from toolkit.config.load import compose
from toolkit.data.storage.data_folder import DataFolder
from toolkit.models.encoder import Encoder
from toolkit.models.interface import Sizes

SHAPE = {"arch": "bert_tiny", "arch.width": 32, "arch.heads": 2, "arch.embedding_width": 16}
LENGTH, WIDTH, SYMBOLS = 24, 32, 60


def counted(sizes=None, ranks=1, **options):
    options = {key.replace("__", "."): value for key, value in options.items()}
    given = {**SHAPE, "task": "mlm", "tokens_per_sample": LENGTH, "batch_size": 4, **options}
    return count_flops(compose(given), sizes or Sizes(tokens=SYMBOLS), ranks=ranks)


def test_flops_of_a_layer_equal_a_count_by_hand():
    """Two for each multiplication and addition, over T tokens of width d, for a sentence:

    q, k, v and output 4 x 2 T d^2; scores and their application to the values 2 x 2 T^2 d;
    feed-forward 2 x 2 T d 4d. Backwards twice that.
    """
    found = counted()
    attention = 8 * LENGTH * WIDTH**2 + 4 * LENGTH**2 * WIDTH
    feed_forward = 16 * LENGTH * WIDTH**2
    assert found.sentences == 4
    assert found.parts["encoder.layers.0.attention"] == (4 * attention, 8 * attention)
    assert found.parts["encoder.layers.0.feed_forward"] == (4 * feed_forward, 8 * feed_forward)


def test_flops_of_the_last_layer_are_those_of_masked_tokens():
    found = counted(tokens_per_sample=128, mask_rate=0.5, batch_size=64)
    last = found.parts["encoder.layers.1.feed_forward"].forward
    selected = last / (16 * WIDTH**2)
    assert selected == pytest.approx(64 * 125 * 0.5, rel=0.05)
    assert found.parts["task.head"].forward == selected * 2 * (WIDTH * 16 + 16 * SYMBOLS)
    whole = found.parts["encoder.layers.1.attention"]
    assert whole == found.parts["encoder.layers.0.attention"]


@pytest.mark.parametrize(
    ("options", "ranks", "sentences", "micro_batches"),
    [
        ({"batch_size": 4}, 1, 4, 1),
        ({"batch_size": None}, 1, 32, 1),
        ({"batch_size": None, "max_tokens": 100}, 1, 4, 1),
        ({"batch_size": 3, "max_tokens": 100}, 2, 3, 2),
        ({"update_freq": 3}, 2, 4, 6),
        ({"micro_batches_per_update": 6}, 2, 4, 6),
    ],
)
def test_flops_of_an_update_follow_the_batch_options(options, ranks, sentences, micro_batches):
    found = counted(ranks=ranks, **options)
    assert (found.sentences, found.micro_batches) == (sentences, micro_batches)
    assert found.update == micro_batches * sum(found.batch)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"task__sample_mode": "blocks"}, {"task__pair_mode": "electra"}, {"task": "rtd"}],
)
def test_flops_are_counted_at_the_maximum_length(options):
    assert counted(**options).tokens == LENGTH


def test_flops_of_generator_and_discriminator_are_separate():
    names = counted(task="rtd").parts
    stacks = {name.rpartition(".layers.")[0] for name in names if ".layers." in name}
    assert stacks == {"encoder", "task.generator.encoder"}


def test_flops_are_counted_without_memory(monkeypatch):
    monkeypatch.setattr(flops_module, "CPU", None)
    wide = {"arch__width": 8192, "arch__embedding_width": 8192}  # 10 GB, were it there
    assert counted(Sizes(tokens=30_000), **wide).batch.forward > 1e9


@pytest.mark.parametrize(
    "options",
    [
        {"arch": "composite_bert_tiny", "arch.depthwise": True, "arch.convolve": "query"},
        {"arch": "conv_san", "arch.character_width": 0, "arch.fixed_length": LENGTH},
        {"arch": "convbert_tiny"},
        {"arch": "deberta_tiny"},
        {"arch": "modernbert_tiny"},
        {"arch": "taco_tiny", "task": "mpm"},
        {"arch": "bert_tiny", "arch.norm": "rms"},
    ],
    ids=lambda options: options["arch"],
)
def test_architectures_need_no_values_for_their_flops(options, monkeypatch):
    monkeypatch.setattr(flops_module, "CPU", None)
    run = compose({"task": "mlm", "tokens_per_sample": LENGTH, "batch_size": 4, **options})
    assert count_flops(run, Sizes(tokens=SYMBOLS)).batch.forward > 1e6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arch", "batch_size", "generator_size", "published"),
    [("convbert", 256, 1 / 3, 1.9e19), ("convbert_medium_small", 128, 0.25, 1.5e18)],
)
def test_flops_equal_table_7_of_convbert(arch, batch_size, generator_size, published):
    options = {"arch": arch, "task": "rtd", "task.generator_size": generator_size}
    run = compose({**options, "batch_size": batch_size, "tokens_per_sample": 128})
    found = count_flops(run, Sizes(tokens=30522))
    assert 1e6 * found.update == pytest.approx(published, rel=0.05)


def test_flops_of_a_model_that_needs_values_are_counted_on_the_cpu(monkeypatch):
    without, forward = counted(), Encoder.forward

    def looking(self, inputs, *others):
        assert inputs.tokens.max() > 0  # on the meta device nothing is or is not
        return forward(self, inputs, *others)

    monkeypatch.setattr(Encoder, "forward", looking)
    assert counted().parts == without.parts


def test_flops_of_other_tasks_require_their_data():
    with pytest.raises(ToolkitError, match=r"task pos_tagging requires its data, .* none"):
        counted(task="pos_tagging")


def test_flops_of_large_batches_include_the_head():
    """Training never stores the logits of such a batch; its criterion computes them."""
    found = counted(Sizes(tokens=30522), tokens_per_sample=128, batch_size=128)
    head = found.parts["task.head"]
    assert head.forward > 128 * 15 * 2 * 16 * 30522 and head.backward == 2 * head.forward


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


def test_shares_of_parts_sum_to_one():
    found = flops_table(flops())
    names = [row[0] for row in found.rows]
    layers = ["encoder layers 1 to 2, each", "  attention", "  feed_forward", "encoder layer 3"]
    assert names[:5] == ["encoder.embeddings", *layers] and found.rows[1][1:3] == [20e-6, 40e-6]
    shares = [row[-1] for row in found.rows if row[-1] and row[0] != "all"]
    assert sum(float(share.strip("%")) for share in shares) == pytest.approx(100, abs=0.2)
    assert found.rows[-1] == ["all", 100 / 2e6, 200 / 2e6, "100.0%"]


def test_flops_of_a_run_are_updates_times_one_update():
    found = flops(max_update=1000)
    assert found.update == 3 * 300
    assert describe_flops(found)["update"] == (
        "3 x 2 sentences of 16 tokens: 9.00e+02 FLOP forward and backward"
    )
    assert describe_flops(found)["run"] == "1,000 updates: 9.00e+05 FLOP"
    assert describe_flops(flops())["run"] == "pass --max-update for the total"


def test_planned_flops_have_the_vocabulary_of_the_data(data, capsys):
    assert main([str(data), "--flops", "--arch", "bert_tiny"]) == 0
    symbols = len(DataFolder.open(data).tokenizer.vocabulary)
    assert f"bert_tiny, mlm, {symbols:,} symbols" in capsys.readouterr().out
