"""Score of predicting the majority class of the training set, per task, as JSON.

python examples/glue/majority.py DATA   (DATA/TASK: written by toolkit-preprocess)
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np

from toolkit.data.formats.classification.split import ClassificationSplit
from toolkit.data.storage.data_folder import DataFolder
from toolkit.metrics.classification import CLASSIFICATION_METRICS, REGRESSION_METRICS


def majority(folder: Path) -> float:
    """In percent; for regression tasks the training mean is predicted, whose correlation is 0."""
    data = DataFolder.open(str(folder))
    train, valid = ClassificationSplit(data, "train"), ClassificationSplit(data, "valid")
    if valid.is_regression:
        predicted = np.full(len(valid), train.answers.mean())
    else:
        predicted = np.full(len(valid), np.bincount(train.answers).argmax())
    metrics = {**CLASSIFICATION_METRICS, **REGRESSION_METRICS}
    scores = [metrics[name](valid.answers, predicted) for name in valid.labels.metrics]
    return 100 * float(np.mean([0.0 if math.isnan(value) else value for value in scores]))


def main(data: Path) -> None:
    tasks = [path for path in sorted(data.iterdir()) if (path / "meta.json").exists()]
    print(json.dumps({task.name: majority(task) for task in tasks}))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
