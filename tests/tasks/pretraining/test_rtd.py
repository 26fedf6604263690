from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from toolkit.common.registry import ARCHITECTURES, TASKS
from toolkit.config.sections import ComponentConfig
from toolkit.criteria import IGNORED, Binary, Classes
from toolkit.criteria.cross_entropy import CrossEntropy, CrossEntropyConfig
from toolkit.metrics.classification import roc_auc
from toolkit.models.interface import Inputs, Sizes
from toolkit.tasks.build import build_learner
from toolkit.tasks.pretraining.rtd import ReplacedTokensBatch

every_architecture = pytest.mark.parametrize(
    "name", ["bert_tiny", "composite_bert_tiny", "taco_tiny", "convbert_tiny"]
)
SMALL = {"layers": 1, "width": 16, "heads": 2, "embedding_width": 8}


def build(name="bert_tiny", *, options=None, symbols=12, **changes):
    arch, task = ARCHITECTURES[name].config, TASKS["rtd"].config
    arch = ComponentConfig(name, dataclasses.replace(arch, **changes))
    task = ComponentConfig("rtd", dataclasses.replace(task, **(options or {})))
    return build_learner(arch, task, Sizes(tokens=symbols))


def learner(name="bert_tiny"):
    """A learner with weights large enough to matter."""
    torch.manual_seed(0)
    model = build(name, **({} if name.startswith("taco") else SMALL)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


def batch(draws=(0.1, 0.5, 0.9)):
    """Two sentences of five tokens; the last position is padding, the last row is a padding row."""
    tokens = torch.tensor([[1, 3, 3, 7, 2], [1, 8, 3, 2, 0]])
    padding = tokens == 0
    return ReplacedTokensBatch(
        Inputs(tokens, padding=padding), torch.tensor([1, 2, 7, 0]),
        torch.tensor([5, 6, 9, IGNORED]), torch.tensor([*draws, 0.0]),
        {"mlm": 3.0, "rtd": 9.0}, 2, 9,
    )  # fmt: skip


def cross_entropy():
    return CrossEntropy(CrossEntropyConfig())


def sample_by_hand(logits, draws):
    """The first token whose cumulative probability exceeds the draw."""
    tokens = []
    for row, draw in zip(logits, draws, strict=True):
        sums = row.double().softmax(-1).cumsum(0)
        tokens.append(next(v for v, total in enumerate(sums) if total > draw))
    return tokens


def test_discriminator_reads_the_sentences_with_sampled_tokens():
    model, b = learner(), batch()
    predictions = model(b)
    logits = predictions["mlm"].logits
    sampled = torch.tensor([[1, 5, 6, 7, 2], [1, 8, 9, 2, 0]])
    for position, token in zip([1, 2, 7], sample_by_hand(logits[:3], b.draws[:3]), strict=True):
        sampled.view(-1)[position] = token
    states = model.encoder(Inputs(sampled, padding=b.inputs.padding)).states
    torch.testing.assert_close(predictions["rtd"].logits, model.task.head(states.flatten(0, 1)))
    true = torch.tensor([[1, 5, 6, 7, 2], [1, 8, 9, 2, 0]])
    labels = [int(a != t) for a, t in zip(sampled.flatten(), true.flatten(), strict=True)]
    assert predictions["rtd"].targets.tolist() == [*labels[:-1], IGNORED] and sum(labels) > 0


@every_architecture
def test_embeddings_are_shared_and_registered_once(name):
    model = learner(name)
    discriminator, generator = model.encoder, model.task.generator.encoder
    assert generator.token_embedding is discriminator.token_embedding
    names = [n for n in model.state_dict() if "generator.encoder.embeddings" in n]
    maps = ["fit_words", "fit_positions"] if name == "taco_tiny" else ["widen"]
    assert names == [
        f"task.generator.encoder.embeddings.{m}.{p}" for m in maps for p in ("weight", "bias")
    ]
    addresses = [p.data_ptr() for p in model.state_dict().values()]
    assert len(addresses) == len(set(addresses))


@every_architecture
def test_both_networks_train_the_embeddings_and_the_discriminator_nothing_of_the_generator(name):
    model = learner(name)
    totals = cross_entropy()(model(batch()))
    generator = list(model.task.generator.parameters())
    gradients = torch.autograd.grad(totals["rtd"], generator, retain_graph=True, allow_unused=True)
    assert not any(gradient is not None for gradient in gradients)
    for total in totals.values():
        (gradient,) = torch.autograd.grad(
            total, [model.encoder.token_embedding.weight], retain_graph=True
        )
        assert gradient.abs().sum() > 0


def build_disentangled(name="bert_tiny", sharing="disentangled"):
    torch.manual_seed(0)
    options = {"embedding_sharing": sharing}
    model = build(name, options=options, **({} if name.startswith("taco") else SMALL))
    return model.double().eval()


@every_architecture
def test_disentangled_tables_start_equal_and_each_loss_trains_its_own(name):
    model = build_disentangled(name)
    totals, pairs = cross_entropy()(model(batch())), model.task.disentangled
    assert len(pairs) >= 2
    for tables in zip(*pairs, strict=True):
        assert {id(it) for it in tables} <= {id(it) for it in model.modules()}
    for of_discriminator, of_generator in pairs:
        assert torch.equal(of_discriminator.weight, of_generator.weight)
        for loss, kept in (("mlm", [False, True]), ("rtd", [True, False])):
            weights = of_discriminator.weight, of_generator.weight
            gradients = torch.autograd.grad(
                totals[loss], weights, retain_graph=True, allow_unused=True
            )
            assert [it is not None and bool(it.any()) for it in gradients] == kept
    assert not build_disentangled(name, sharing="none").task.disentangled


def test_disentangled_updates_equal_those_of_a_difference_from_a_constant():
    """He et al. 2021, equation 4, literally: E_D = sg(E_G) + Delta, Delta 0 at first."""
    model = build_disentangled()
    names = {id(module): name for name, module in model.named_modules()}
    pairs = [[f"{names[id(it)]}.weight" for it in pair] for pair in model.task.disentangled]
    plain = {n: p.detach().clone().requires_grad_() for n, p in model.named_parameters()}
    for of_discriminator, _ in pairs:
        nn.init.zeros_(plain[of_discriminator])
    optimizers = [
        torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1)
        for parameters in (model.parameters(), plain.values())
    ]
    model.task.on_optimizer(optimizers[0])
    for _ in range(4):
        sums = {d: plain[g].detach() + plain[d] for d, g in pairs}
        outputs = model(batch()), torch.func.functional_call(model, {**plain, **sums}, (batch(),))
        for optimizer, output in zip(optimizers, outputs, strict=True):
            optimizer.zero_grad()
            sum(cross_entropy()(output).values()).backward()
            optimizer.step()
    for of_discriminator, of_generator in pairs:
        expected = plain[of_generator] + plain[of_discriminator]
        torch.testing.assert_close(model.get_parameter(of_discriminator), expected)
        assert plain[of_discriminator].abs().max() > 0.01


def test_frozen_tables_do_not_follow_those_of_the_generator():
    model = build_disentangled()
    model.encoder.requires_grad_(False)
    before = {name: p.clone() for name, p in model.encoder.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model.task.on_optimizer(optimizer)
    sum(cross_entropy()(model(batch())).values()).backward()
    optimizer.step()
    for name, parameter in model.encoder.named_parameters():
        assert torch.equal(parameter, before[name])
    of_discriminator, of_generator = model.task.disentangled[0]
    assert not torch.equal(of_discriminator.weight, of_generator.weight)


@every_architecture
def test_every_parameter_has_a_gradient(name):
    model = learner(name)
    sum(cross_entropy()(model(batch())).values()).backward()
    assert not [n for n, p in model.named_parameters() if p.grad is None]


@pytest.mark.parametrize(
    ("name", "fraction", "expected"),
    [
        ("bert_small", 0.25, (64, 1)),
        ("bert", 0.3333, (256, 4)),
        ("bert", 0.25, (192, 3)),
        ("composite_bert_small", 0.1, (26, 1)),
        ("modernbert", 0.3, (228, 3)),  # an even width of heads for rope
    ],
)
def test_generator_is_a_fraction_of_the_model_with_at_least_one_head(name, fraction, expected):
    scaled = ARCHITECTURES[name].config.scaled_options(fraction)
    assert (scaled["width"], scaled["heads"]) == expected


def test_pre_norm_generator_normalizes_projected_embeddings():
    options = {"pre_norm": True, "norm": "rms", "biases": False, "norm_epsilon": 1e-3}
    generator = build(**SMALL | options | {"embedding_width": None}).task.generator.encoder
    norm = generator.layers[0].after_attention.norm
    assert norm.weight.shape == (generator.width,) and norm.eps == 1e-3
    assert not [name for name, _ in generator.named_parameters() if "bias" in name]


BARE = {"conv_type": "none"}
COUNTS = {
    "ELECTRA small": ("bert_small", {"max_positions": 512}, 0.25, "13.48 13.55 14.20"),
    "small, bottleneck": ("convbert_small", BARE, 0.25, "11.91 11.97 12.62"),
    "ConvBERT small": ("convbert_small", {}, 0.25, "13.14 13.21 14.02"),
    "medium-small, bottleneck": (
        "convbert_medium_small", BARE | {"groups": 1}, 0.25, "21.77 21.92 23.09"
    ),
    "medium-small, grouped": ("convbert_medium_small", BARE, 0.25, "14.69 14.84 15.57"),
    "ConvBERT medium-small": ("convbert_medium_small", {}, 0.25, "17.48 17.62 18.54"),
    "ELECTRA base": ("bert", {"max_positions": 512}, 0.3333, "108.89 109.48 119.39"),
    "base, bottleneck": ("convbert", BARE, 0.3333, "94.72 95.31 103.64"),
    "ConvBERT base": ("convbert", {}, 0.3333, "105.68 106.27 115.84"),
}  # fmt: skip


@pytest.mark.parametrize("row", COUNTS)
def test_parameter_counts_equal_the_papers(row):
    """Millions of parameters: encoder, with the discriminator's head, with the generator."""
    name, changes, fraction, expected = COUNTS[row]
    with torch.device("meta"):
        model = build(name, symbols=30522, options={"generator_size": fraction}, **changes)
    parts = (model.encoder, model.task.head, model.task.generator)
    counts = [sum(p.numel() for p in part.parameters()) for part in parts]
    assert " ".join(f"{sum(counts[:n]) / 1e6:.2f}" for n in (1, 2, 3)) == expected


def test_metrics_equal_hand_computed_ones():
    model = learner()
    filled = Classes(torch.eye(12)[[2, 3, 4]], torch.tensor([2, 9, IGNORED]))
    replaced = Binary(
        torch.tensor([2.0, -1.0, 0.5, -3.0, 9.0]), torch.tensor([1, 1, 0, 0, IGNORED])
    )
    metrics = model.task.metrics({"mlm": filled, "rtd": replaced}, ReplacedTokensBatch(*[None] * 7))
    auc = metrics.pop("auc")
    ratios = {name: float(ratio.total / ratio.weight) for name, ratio in metrics.items()}
    assert ratios == {
        "generator_accuracy": 0.5, "discriminator_accuracy": 0.5, "precision": 0.5,
        "recall": 0.5, "replaced": 0.5,
    }  # fmt: skip
    assert roc_auc(auc.positives.numpy(), auc.negatives.numpy()) == 0.75


def test_discriminator_weighs_fifty_times_the_generator_each_averaged():
    assert learner().task.coefficients == {"mlm": 1.0, "rtd": 50.0}
    assert build(options={"discriminator_weight": 7.0}).task.coefficients["rtd"] == 7.0
