"""Writing sentences, by toolkit-generate's search and by Hugging Face's `generate`.

    python benchmarks/generate_speed.py [--shape iwslt] [--beam 1 5] [--batch 1 32]
        [--precision fp32 bf16] [--rounds 3] [--report]

(needs the extra `hf`.) All have the same random weights, in the shape of a Marian model: the
`iwslt` one is `transformer_iwslt` (6 + 6 layers, 512, 4 heads, 1024), `tiny` is `transformer_tiny`
(4 + 4, 128, 4, 256), `base` is `transformer`; 10,000 joined symbols. What random weights write has
no end, so all are told where each sentence ends: sources and targets have the lengths of Multi30k
(14.6 and 15.0 pieces on average, standard deviation 5.7, correlation 0.85). A text is four batches,
but 16 sentences at least. Ours are put together by length, as toolkit-generate does; `generate`
takes batches as it gets them: once of sentences in the text's order, as most call it, and once of
ours, sorted. Beams stop when as many hypotheses have ended (`early_stopping=True`). Seconds are the
processor's, medians of so many rounds in which the contestants take turns, more of the narrower
beams, whose rounds are shorter.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from functools import partial
from itertools import product
from typing import Any

import torch
from race import Record, Update, machine, race, report
from torch import Tensor

WORDS, PAD, END = 10_000, 0, 1
SHAPES = {
    "tiny": ("transformer_tiny", 4, 128, 4, 256),
    "iwslt": ("transformer_iwslt", 6, 512, 4, 1024),
    "base": ("transformer", 6, 512, 8, 2048),
}
"""Architecture, layers, width, heads, inner width."""
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def lengths(count: int, *, text_order: bool = True) -> tuple[Tensor, Tensor]:
    """Of sources and targets, ends left out."""
    drawn = torch.randn(2, count, generator=torch.Generator().manual_seed(0))
    source = (14.6 + 5.7 * drawn[0]).round().clamp(4, 40).long()
    related = 0.85 * drawn[0] + (1 - 0.85**2) ** 0.5 * drawn[1]
    target = (15.0 + 5.7 * related).round().clamp(3, 45).long()
    if text_order:
        return source, target
    order = source.argsort(stable=True)
    return source[order], target[order]


def given(count: int, batch: int, *, text_order: bool) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Batches: sources, their padding, and how long what is written is."""
    source, target = lengths(count, text_order=text_order)
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(2, WORDS, (count, int(source.max()) + 1), generator=generator)
    places = torch.arange(tokens.shape[1])
    tokens[places == source[:, None]], tokens[places > source[:, None]] = END, PAD
    found = []
    for rows in torch.arange(count).split(batch):
        width = int(source[rows].max()) + 1
        part = tokens[rows, :width]
        found.append((part, part == PAD, target[rows]))
    return found


def hugging_faces_model(shape: str) -> Any:
    import transformers

    transformers.logging.set_verbosity_error()
    _, layers, width, heads, inner = SHAPES[shape]
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("layers", layers), ("attention_heads", heads), ("ffn_dim", inner))
    }
    torch.manual_seed(0)
    return transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=WORDS,
            d_model=width,
            activation_function="relu",
            scale_embedding=True,
            max_position_embeddings=128,
            pad_token_id=PAD,
            eos_token_id=END,
            decoder_start_token_id=END,
            forced_eos_token_id=None,
            bad_words_ids=[[PAD]],
            **sides,
        )
    ).eval()


def hugging_faces(shape: str, beam: int, batches: list[Any], precision: str) -> Update:
    import transformers

    class Ends(transformers.LogitsProcessor):
        """A sentence ends where it should."""

        def __init__(self, target: Tensor) -> None:
            self.target = target.repeat_interleave(beam)

        def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
            due = self.target == input_ids.shape[1] - 1
            kept = scores[:, END].clone()
            scores[:, END] = -torch.inf
            scores[due] = -torch.inf
            scores[due, END] = kept[due]
            return scores

    model = hugging_faces_model(shape).to(DTYPES[precision])

    def translate() -> None:
        for tokens, padding, target in batches:
            model.generate(
                input_ids=tokens,
                attention_mask=(~padding).long(),
                num_beams=beam,
                max_new_tokens=int(target.max()) + 1,
                early_stopping=beam > 1,
                logits_processor=transformers.LogitsProcessorList([Ends(target)]),
            )

    return translate


def ours(shape: str, beam: int, batches: list[Any], precision: str) -> Update:
    from toolkit.common.system import keep_freed_memory

    keep_freed_memory()
    from toolkit.common.registry import ARCHITECTURES
    from toolkit.config.commands.generate import SearchConfig
    from toolkit.generation.generate import generate
    from toolkit.generation.hypothesis import DecodingPrompt, SpecialTokens
    from toolkit.models.interface import Inputs, Sizes

    entry = ARCHITECTURES[SHAPES[shape][0]]
    config = dataclasses.replace(entry.config, share_embeddings="all")
    model = entry.factory(config, Sizes(tokens=WORDS)).eval().to(DTYPES[precision])
    model.pack()
    c, symbols = SearchConfig(beam=beam), SpecialTokens(END, (PAD,))

    def translate() -> None:
        for tokens, padding, target in batches:
            starts = [DecodingPrompt(most, min_length=most) for most in target.tolist()]
            inputs = Inputs(tokens, padding=padding if padding.any() else None)
            generate([model], inputs, starts, symbols, c)

    return translate


WAYS = {"ours": ours, "theirs": hugging_faces, "theirs, sorted": hugging_faces}


def sentences(batch: int) -> int:
    return max(4 * batch, 16)


def table(records: dict[tuple[Any, ...], Record]) -> str:
    lines = [
        "| batch | beam | precision | sentences/s: ours | theirs | theirs, sorted "
        "| tokens/s, the same | peak MiB, the same | times as fast as theirs | as theirs, sorted |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for batch, beam, precision in {key[1:]: None for key in records}:
        three = [records[who, batch, beam, precision] for who in WAYS]
        seconds = [statistics.median(record.seconds) for record in three]
        count = sentences(batch)
        symbols = int(lengths(count)[1].sum()) + count
        cells = [
            " | ".join(f"{count / each:,.1f}" for each in seconds),
            " / ".join(f"{symbols / each:,.0f}" for each in seconds),
            " / ".join(f"{record.peak_mib:,.0f}" for record in three),
            " | ".join(f"{each / seconds[0]:.2f}" for each in seconds[1:]),
        ]
        lines.append(f"| {batch} | {beam} | {precision} | {' | '.join(cells)} |")
    return "\n".join(lines)


def contestants(shape: str, batch: int, beam: int, precision: str) -> dict[tuple[Any, ...], Any]:
    ways = {}
    for who, make in WAYS.items():
        batches = given(sentences(batch), batch, text_order=who == "theirs")
        ways[who, batch, beam, precision] = partial(make, shape, beam, batches, precision)
    return ways


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, default="iwslt")
    parser.add_argument("--beam", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--precision", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--rounds", type=int, default=3, help="timings with the widest beam")
    parser.add_argument("--report", action="store_true", help="write a dated file in reports/")
    asked = parser.parse_args()
    records: dict[tuple[Any, ...], Record] = {}
    for batch, beam, precision in product(asked.batch, asked.beam, asked.precision):
        ways = contestants(asked.shape, batch, beam, precision)
        rounds = asked.rounds * max(asked.beam) // beam
        records |= race(ways, rounds, warm_up=1, clock=time.process_time)
    text = f"{machine()}; {asked.shape}\n\n{table(records)}\n"
    print(text)
    if asked.report:
        report(f"generate-speed-{asked.shape}", "Speed of writing", __doc__, text)


if __name__ == "__main__":
    main()
