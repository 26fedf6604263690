"""Run by test_fresh_process: opens exports by Transformers alone, and trains them by its Trainer.

Arguments: a folder with one folder per model, each with `exported`, the `inputs` of a batch as
safetensors and the name of an Auto class. Writes the outputs before and after training.
"""

import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import Trainer, TrainingArguments


def main(folder: Path) -> None:
    auto = getattr(transformers, (folder / "auto_class").read_text())
    inputs = load_file(folder / "inputs.safetensors")
    labels = inputs.pop("labels")
    model = auto.from_pretrained(folder / "exported", trust_remote_code=True)
    outputs = {"before": scores(model, inputs, labels)}
    rows = [
        {**{name: values[i] for name, values in inputs.items()}, "labels": labels[i]}
        for i in range(len(labels))
    ] * 10
    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"),
        max_steps=20,
        per_device_train_batch_size=2,
        learning_rate=1e-3,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=rows)
    trainer.train()
    trainer.save_model(str(folder / "tuned"))
    outputs["after"] = scores(model, inputs, labels)
    save_file(outputs, folder / "outputs.safetensors")


@torch.no_grad()
def scores(model, inputs, labels):
    more = {"labels": labels} if model.config.is_encoder_decoder else {}
    return model.eval()(**inputs, **more).logits.contiguous()


if __name__ == "__main__":
    assert "toolkit" not in sys.modules
    for path in sorted(Path(sys.argv[1]).iterdir()):
        main(path)
