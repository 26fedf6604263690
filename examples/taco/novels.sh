#!/usr/bin/env bash
# TACO, its two ablations and BERT, learnt from novels: examples/taco/novels.sh TEXT...
# TEXT: files or folders of plain text (.txt, .gz, .xz). 15 runs, two at a time, of 5 to 15 minutes
# each on two cores; stop it whenever you like, it goes on where it was. Results are in RUNS (taco-runs).
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
runs="${RUNS:-taco-runs}"
data="${DATA:-novels-data}"
[ $# -gt 0 ] || { echo "usage: $0 TEXT...   (files or folders of plain text)" >&2; exit 2; }

[ -f "$data/meta.json" ] || toolkit-preprocess --trainpref "$(IFS=,; echo "$*")" \
  --units sentences --lowercase --vocab-size 8000 --valid-share 0.01 --destdir "$data"
learn() {
  toolkit-train "$data" --user-dir "$here" --task mpm --task.samples blocks \
    --seeds 0,1,2 --sweep.jobs "${JOBS:-2}" --batch-size 32 --max-update 1000 --lr 2e-3 \
    --warmup-updates 100 --log-interval 50 --validate-interval-updates 200 \
    --keep-last-epochs 1 "$@"
}
learn --grid arch=taco_192,taco_192_summed,bert_192 --save-dir "$runs/both"
learn --grid arch=taco_192,bert_192 --task.objectives mlm --save-dir "$runs/words"
