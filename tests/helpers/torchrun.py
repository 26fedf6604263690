"""toolkit-train under torchrun, in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHAPE = "--arch.layers 2 --arch.width 32 --arch.heads 2 --arch.embedding-width 16"


def start_torchrun(options, words, folder, **environment):
    """Start toolkit-train with these words under torchrun with these options, in a folder."""
    command = [sys.executable, "-m", "torch.distributed.run", *options.split()]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, **environment}
    return subprocess.Popen(
        [*command, "-m", "toolkit.cli.train", *words],
        cwd=folder,
        text=True,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
