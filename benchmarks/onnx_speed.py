"""Models of every architecture in ONNX Runtime: differences from PyTorch's outputs, and time.

    python benchmarks/onnx_speed.py [--rounds 9] [--report]

(needs the extras `hf` and `onnx`)

Each model is exported for batches of any shape and for one of 8 x 128 tokens, with random weights.
"difference" is the largest one from PyTorch's outputs, over batches of 1, 5 and 8 rows with
padding, divided by the largest output; "any" and "fixed" are the two graphs. Both runtimes then
compute the same batch of 8 x 128 tokens in fp32 on one thread, in alternation.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from harness import alternate, machine, parser, publish, table

from toolkit import Tokenizer, build_model
from toolkit.huggingface import program, to_huggingface
from toolkit.huggingface.program import Graph, example_inputs, resolve_shape

BATCH, LENGTH = 8, 128
TOKENIZER = Tokenizer.train([" ".join(f"w{i}" for i in range(1000))], kind="words")
MODELS: list[tuple[str, str, dict[str, Any]]] = [
    ("composite_bert_small", "mlm", {}),
    ("taco_small", "mlm", {}),
    ("convbert_small", "mlm", {}),
    ("bert_small", "mlm", {}),
    ("conv_san", "encode", {"character_width": 0, "fixed_length": LENGTH}),
    ("transformer_iwslt", "translation", {}),
]


def measure(model: Any, rounds: int, folder: Path) -> list[str]:
    """Differences of both graphs, and milliseconds of PyTorch and of both graphs."""
    fixed = resolve_shape(model, BATCH, None if model.encoder.fixed_length else LENGTH)
    inputs = example_inputs(model, fixed, BATCH)
    arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
    graph, sessions, differences = Graph(model).eval(), {}, []
    for name, shape in {"any": resolve_shape(model), "fixed": fixed}.items():
        path = folder / f"{name}.onnx"
        program.write_graph(path, model, shape)
        differences.append(f"{program.compare_outputs(path, model, shape):.1e}")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        sessions[name] = onnxruntime.InferenceSession(str(path), options)

    def in_torch() -> None:
        with torch.no_grad():
            graph(*inputs.values())

    programs = {"torch": in_torch} | {
        name: lambda session=session: session.run(None, arrays)
        for name, session in sessions.items()
    }
    medians = alternate(programs, rounds, warm_up=2)
    ratio = medians["torch"] / medians["fixed"]
    return [*differences, *(f"{1000 * s:,.0f}" for s in medians.values()), f"{ratio:.2f}"]


def main() -> None:
    c = parser(__doc__ or "", rounds=9).parse_args()
    rows = []
    for arch, task, options in MODELS:
        torch.manual_seed(0)
        learner = build_model(arch, tokenizer=TOKENIZER, task=task, **options).eval()
        with tempfile.TemporaryDirectory() as folder:
            rows.append([arch, *measure(to_huggingface(learner), c.rounds, Path(folder))])
            print(*rows[-1])
    head = ["model", "difference, any", "fixed", "PyTorch ms", "any ms", "fixed ms", "ratio"]
    text = f"{machine()}, onnxruntime {onnxruntime.__version__}\n\n{table(head, rows)}"
    publish(text, c.report, "ONNX Runtime", __doc__ or "")


if __name__ == "__main__":
    main()
