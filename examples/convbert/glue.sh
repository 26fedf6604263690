#!/usr/bin/env bash
# ConvBERT, Table 6: examples/convbert/glue.sh CHECKPOINT GLUE_DATA
# Fine-tunes a pre-trained model on the eight tasks of GLUE with each of its 16 settings and nine seeds (SEEDS), and
# prints medians; each task uses the setting with the best median. LR, DECAY and EPOCHS select fewer settings (LR=3e-4).
# Save directories are in RUNS (glue-runs), data in DATA (glue-data); JOBS runs at a time (1). Finished runs are skipped.
# EXTRA: further options of every run. USER_DIR: plugin folder of the checkpoint.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
[ $# -eq 2 ] || usage "expected 2 arguments, got $#."
TOKENIZER="$1" GLUE="$2" DATA="${DATA:-glue-data}" runs="${RUNS:-glue-runs}" recipe=jiang2020-glue
find_glue_tasks RTE MRPC STS-B CoLA SST-2 QNLI MNLI QQP
sweep_glue_tasks "${SEEDS:-0,1,2,3,4,5,6,7,8}" --grid "lr=${LR:-5e-5,1e-4,2e-4,3e-4}" \
  --grid "weight_decay=${DECAY:-0.01,0.1}" --grid "max_epoch=${EPOCHS:-3,10}"
