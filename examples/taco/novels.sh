#!/usr/bin/env bash
# TACO, its two ablations and BERT, pre-trained on novels: examples/taco/novels.sh TEXT...
# TEXT: files or folders of plain text (.txt, .gz, .xz). 15 runs, JOBS (2) at a time, of 5 to 15 minutes each on two
# cores. Save directories are in RUNS (taco-runs), data in DATA (novels-data). Restart it to resume.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
runs="${RUNS:-taco-runs}" data="${DATA:-novels-data}"
[ $# -gt 0 ] || usage "no text given."

prepare_text "$data" "$@"
learn() {
  toolkit-train "$data" --user-dir "$here" --task mpm --task.sample-mode blocks \
    --seeds 0,1,2 --sweep.jobs "${JOBS:-2}" --batch-size 32 --max-update 1000 --lr 2e-3 \
    --warmup-updates 100 --log-interval 50 --validate-interval-updates 200 \
    --keep-last-epochs 1 "$@"
}
learn --grid arch=taco_192,taco_192_summed,bert_192 --save-dir "$runs/both"
learn --grid arch=taco_192,bert_192 --task.objectives mlm --save-dir "$runs/words"
print_tables taco "$runs"
