#!/usr/bin/env bash
# ConvBERT, Table 6: examples/convbert/glue.sh CHECKPOINT GLUE_DATA
# Fine-tunes a pre-trained model on the eight tasks of GLUE with each of its 16 settings and nine seeds (SEEDS), and
# prints the table of medians, each task with the setting whose median is best. LR, DECAY and EPOCHS name fewer
# settings, as in LR=3e-4. Runs are in RUNS (glue-runs), data in DATA (glue-data), JOBS runs at a time (1). What is
# finished is not done again; EXTRA: further options of every run. USER_DIR: folder of the checkpoint's plugin.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
. "$here/../glue/tasks.sh"
[ $# -eq 2 ] || usage "two folders are needed, but $# are given"
CODEC="$1" GLUE="$2" DATA="${DATA:-glue-data}" runs="${RUNS:-glue-runs}"
known RTE MRPC STS-B CoLA SST-2 QNLI MNLI QQP

for task in "${tasks[@]}"; do
  prepare "$task"
  toolkit-train "$DATA/$task" --config "$here/glue.yaml" --finetune-from "$CODEC" \
    --grid "lr=${LR:-5e-5,1e-4,2e-4,3e-4}" --grid "weight_decay=${DECAY:-0.01,0.1}" --grid "max_epoch=${EPOCHS:-3,10}" \
    --seeds "${SEEDS:-0,1,2,3,4,5,6,7,8}" --sweep.by median --sweep.jobs "${JOBS:-1}" --checkpoint.no-save \
    --valid-subset "$(splits "$task")" --save-dir "$runs/$task" ${USER_DIR:+--user-dir "$USER_DIR"} ${EXTRA:-}
done
overview "$runs" --by median -- "${tasks[@]}"
