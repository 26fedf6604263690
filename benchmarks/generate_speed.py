"""Text generation: beam search of toolkit-generate and `generate` of Hugging Face Transformers.

    python benchmarks/generate_speed.py [--shape iwslt] [--beam 1 5] [--batch 1 32]
        [--precision fp32 bf16] [--rounds 3] [--report]

(needs the extra `hf`.) All models have random weights and the shape of a Marian model: `iwslt` is
`transformer_iwslt` (6 + 6 layers, width 512, 4 heads, 1024), `tiny` is `transformer_tiny` (4 + 4,
128, 4, 256), `base` is `transformer`; a joint vocabulary of 10,000. Random models do not end their
sentences, so the end of each is given: sources and targets have the lengths of Multi30k (14.6 and
15.0 pieces on average, standard deviation 5.7, correlation 0.85). A text is four batches, at least
16 sentences. toolkit-generate sorts sentences by length. `generate` takes batches as they come:
once in the order of the text, as it is mostly called, and once sorted. Beam search stops when
`beam` hypotheses have ended (`early_stopping=True`). Seconds are processor time, medians of rounds
in which the programs alternate; smaller beams get more rounds.
"""

from __future__ import annotations

import dataclasses
import time
from functools import partial
from itertools import product
from typing import Any

import torch
from harness import Record, Update, machine, parser, publish, race, table
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
    """Lengths of sources and targets, without end tokens."""
    drawn = torch.randn(2, count, generator=torch.Generator().manual_seed(0))
    source = (14.6 + 5.7 * drawn[0]).round().clamp(4, 40).long()
    related = 0.85 * drawn[0] + (1 - 0.85**2) ** 0.5 * drawn[1]
    target = (15.0 + 5.7 * related).round().clamp(3, 45).long()
    if text_order:
        return source, target
    order = source.argsort(stable=True)
    return source[order], target[order]


def make_batches(
    count: int, batch: int, *, text_order: bool
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Batches: sources, their padding, and the lengths of the outputs."""
    source, target = lengths(count, text_order=text_order)
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(2, WORDS, (count, int(source.max()) + 1), generator=generator)
    positions = torch.arange(tokens.shape[1])
    tokens[positions == source[:, None]], tokens[positions > source[:, None]] = END, PAD
    batches = []
    for rows in torch.arange(count).split(batch):
        width = int(source[rows].max()) + 1
        part = tokens[rows, :width]
        batches.append((part, part == PAD, target[rows]))
    return batches


def transformers_model(shape: str) -> Any:
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


def transformers_generate(shape: str, beam: int, batches: list[Any], precision: str) -> Update:
    import transformers

    class EndAtLength(transformers.LogitsProcessor):
        """Ends each sentence at its target length."""

        def __init__(self, target: Tensor) -> None:
            self.target = target.repeat_interleave(beam)

        def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
            due = self.target == input_ids.shape[1] - 1
            kept = scores[:, END].clone()
            scores[:, END] = -torch.inf
            scores[due] = -torch.inf
            scores[due, END] = kept[due]
            return scores

    model = transformers_model(shape).to(DTYPES[precision])

    def translate() -> None:
        for tokens, padding, target in batches:
            model.generate(
                input_ids=tokens,
                attention_mask=(~padding).long(),
                num_beams=beam,
                max_new_tokens=int(target.max()) + 1,
                early_stopping=beam > 1,
                logits_processor=transformers.LogitsProcessorList([EndAtLength(target)]),
            )

    return translate


def toolkit_generate(shape: str, beam: int, batches: list[Any], precision: str) -> Update:
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
            starts = [DecodingPrompt(length, min_length=length) for length in target.tolist()]
            inputs = Inputs(tokens, padding=padding if padding.any() else None)
            generate([model], inputs, starts, symbols, c)

    return translate


WAYS = {
    "toolkit": toolkit_generate,
    "HF": transformers_generate,
    "HF, sorted": transformers_generate,
}


def sentence_count(batch: int) -> int:
    return max(4 * batch, 16)


HEAD = ["batch", "beam", "precision", *(f"sentences/s, {name}" for name in WAYS)]
NAMES = " / ".join(WAYS)


def speed_table(records: dict[tuple[Any, ...], Record]) -> str:
    rows = []
    for batch, beam, precision in {key[1:]: None for key in records}:
        columns = [records[who, batch, beam, precision] for who in WAYS]
        seconds = [record.median for record in columns]
        count = sentence_count(batch)
        symbols = int(lengths(count)[1].sum()) + count
        cells = [
            *(f"{count / each:,.1f}" for each in seconds),
            " / ".join(f"{symbols / each:,.0f}" for each in seconds),
            " / ".join(f"{record.peak_mib:,.0f}" for record in columns),
            *(f"{each / seconds[0]:.2f}" for each in seconds[1:]),
        ]
        rows.append([batch, beam, precision, *cells])
    ratios = ["toolkit's speed / HF's", "toolkit's speed / HF's, sorted"]
    return table([*HEAD, f"tokens/s: {NAMES}", f"peak MiB: {NAMES}", *ratios], rows)


def contestants(shape: str, batch: int, beam: int, precision: str) -> dict[tuple[Any, ...], Any]:
    ways = {}
    for who, make in WAYS.items():
        batches = make_batches(sentence_count(batch), batch, text_order=who == "HF")
        ways[who, batch, beam, precision] = partial(make, shape, beam, batches, precision)
    return ways


def main() -> None:
    options = parser(__doc__, rounds=3)
    options.add_argument("--shape", choices=SHAPES, default="iwslt")
    options.add_argument("--beam", type=int, nargs="+", default=[1, 5])
    options.add_argument("--batch", type=int, nargs="+", default=[1, 32])
    options.add_argument("--precision", nargs="+", choices=DTYPES, default=list(DTYPES))
    args = options.parse_args()
    records: dict[tuple[Any, ...], Record] = {}
    for batch, beam, precision in product(args.batch, args.beam, args.precision):
        ways = contestants(args.shape, batch, beam, precision)
        rounds = args.rounds * max(args.beam) // beam
        records |= race(ways, rounds, warm_up=1, clock=time.process_time)
    text = f"{machine()}; {args.shape}\n\n{speed_table(records)}\n"
    publish(text, args.report, "Speed of text generation", __doc__, f"-{args.shape}")


if __name__ == "__main__":
    main()
