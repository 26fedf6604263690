"""With the same weights, hypotheses are those of Hugging Face's `generate`."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from tests.models import test_transformer, test_transformer_lm
from toolkit.common.registry import ARCHITECTURES
from toolkit.config.commands.generate import SearchConfig
from toolkit.generation.generate import generate
from toolkit.generation.hypothesis import DecodingPrompt, SpecialTokens
from toolkit.models.interface import Inputs, Sizes

COUNT, WORDS, MOST = 200, 50, 14
PAD, END = 0, 1


def ends(most):
    """The maximum length as a logits processor: after `most` tokens the end symbol follows."""
    transformers = pytest.importorskip("transformers")

    class Ends(transformers.LogitsProcessor):
        def __call__(self, ids, scores):
            if ids.shape[1] == most:
                kept = scores[:, END].clone()
                scores[:] = -torch.inf
                scores[:, END] = kept
            return scores

    return transformers.LogitsProcessorList([Ends()])


def cut(rows, begin):
    """The tokens from `begin` up to the end symbol."""
    rows = [row[begin:] for row in rows.tolist()]
    return [row[: row.index(END)] if END in row else row for row in rows]


def options(beam, begin, lenpen=1.0):
    return {
        "num_beams": beam,
        "num_return_sequences": min(beam, 2),
        "max_new_tokens": MOST + 1,
        "early_stopping": beam > 1,
        "length_penalty": lenpen,
        "pad_token_id": PAD,
        "eos_token_id": END,
        "logits_processor": ends(MOST + begin),
    }


def marian():
    """Marian with random weights, large enough for varied hypotheses, and the same model here."""
    hf, entry = test_transformer.build_hugging_face("Marian"), ARCHITECTURES["transformer"]
    torch.manual_seed(3)
    for parameter in hf.parameters():
        if parameter.dim() > 1 and parameter.requires_grad:  # the same in every version
            torch.nn.init.normal_(parameter, std=0.5)
    hf.model.shared.weight.data[END] *= 1.5  # now and then the largest score
    hf.generation_config.forced_eos_token_id = None
    hf.config.decoder_start_token_id = hf.generation_config.decoder_start_token_id = END
    hf.generation_config.bad_words_ids = [[PAD]]
    shape = {**test_transformer.SHAPE, **test_transformer.LAYERS}
    model = entry.factory(dataclasses.replace(entry.config, **shape), Sizes(tokens=WORDS)).eval()
    test_transformer.copy_model(model, hf.model)
    return hf.double(), model.double()  # in fp32 some scores are so close that rounding decides


@pytest.mark.slow
@pytest.mark.parametrize(("beam", "lenpen"), [(1, 1.0), (5, 1.0), (4, 0.6)])
@torch.no_grad()
def test_translations_equal_those_of_marian(beam, lenpen):
    hf, model = marian()
    tokens, lengths = torch.randint(2, WORDS, (COUNT, 9)), torch.randint(1, 10, (COUNT,))
    padding = torch.arange(9) >= lengths[:, None]
    tokens[padding] = PAD
    expected = hf.generate(tokens, attention_mask=(~padding).long(), **options(beam, 1, lenpen))
    c = SearchConfig(beam=beam, lenpen=lenpen)
    prompts = [DecodingPrompt(MOST)] * COUNT
    found = generate(
        [model], Inputs(tokens, padding=padding), prompts, SpecialTokens(END, (PAD,)), c
    )
    actual = [h.tokens for hypotheses in found for h in hypotheses[: min(beam, 2)]]
    assert actual == cut(expected, 1)
    different = {tuple(tokens) for tokens in actual}
    assert len(different) > 20 and len(set(map(len, different))) > 1, "else little is shown"


@pytest.mark.parametrize("beam", [1, 4])
@torch.no_grad()
def test_continuations_equal_those_of_gpt2(beam):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(3)
    shape = {"vocab_size": WORDS, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 20}
    config = transformers.GPT2Config(**shape, activation_function="relu", initializer_range=0.3)
    hf, entry = (transformers.GPT2LMHeadModel(config).eval(), ARCHITECTURES["transformer_lm_gpt2"])
    own = {**test_transformer_lm.SHAPE, "activation": "relu"}
    model = entry.factory(dataclasses.replace(entry.config, **own), Sizes(tokens=WORDS)).eval()
    inner = hf.transformer
    test_transformer_lm.copy_model(model, inner.wte, inner.wpe, inner)
    model.decoder.norm.load_state_dict(inner.ln_f.state_dict())
    prompts = torch.randint(2, WORDS, (COUNT, 4))
    given = torch.cat([torch.full((COUNT, 1), END), prompts], 1)
    expected = hf.generate(given, attention_mask=torch.ones_like(given), **options(beam, 5))
    prompts = [DecodingPrompt(MOST, prompt=prompt) for prompt in prompts.tolist()]
    found = generate([model], None, prompts, SpecialTokens(END), SearchConfig(beam=beam))
    actual = [h.tokens for hypotheses in found for h in hypotheses[: min(beam, 2)]]
    assert actual == cut(expected, 5)
