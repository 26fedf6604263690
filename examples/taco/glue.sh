#!/usr/bin/env bash
# TACO, Table 8: examples/taco/glue.sh CHECKPOINT GLUE_DATA
# Fine-tunes a pre-trained model on the eight tasks of GLUE with each of its 32 settings and five seeds (SEEDS), and
# prints medians; each task uses the setting with the best median. LR, BATCH and EPOCHS select fewer settings
# (LR=2e-5,5e-5). Save directories are in RUNS (glue-runs), data in DATA (glue-data); JOBS runs at a time (1). Finished
# runs are skipped. EXTRA: further options of every run. USER_DIR: plugin folder of the checkpoint.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
[ $# -eq 2 ] || usage "expected 2 arguments, got $#."
TOKENIZER="$1" GLUE="$2" DATA="${DATA:-glue-data}" runs="${RUNS:-glue-runs}" recipe=taco-glue
find_glue_tasks RTE MRPC STS-B CoLA SST-2 QNLI MNLI QQP
sweep_glue_tasks "${SEEDS:-0,1,2,3,4}" --grid "lr=${LR:-1e-5,2e-5,3e-5,5e-5}" \
  --grid "batch_size=${BATCH:-16,32}" --grid "max_epoch=${EPOCHS:-3,4,5,6}"
