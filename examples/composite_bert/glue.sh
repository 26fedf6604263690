#!/usr/bin/env bash
# Chang et al. 2021, Table 5: examples/composite_bert/glue.sh CHECKPOINT GLUE_DATA
# Fine-tunes a pre-trained model on every task of GLUE with ten seeds (SEEDS) and prints the table of means, errors
# and bests. RTE, STS-B and MRPC begin at the model that the first seed made of MNLI. SIZE: small, or base.
# Runs are in RUNS (glue-runs), data in DATA (glue-data), JOBS runs at a time (1). What is finished is not done
# again; further options (EXTRA="--max-update 3") go to every run. USER_DIR: folder of the checkpoint's plugin.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
. "$here/../glue/tasks.sh"
[ $# -eq 2 ] || usage "two folders are needed, but $# are given"
CODEC="$1" GLUE="$2" DATA="${DATA:-glue-data}" runs="${RUNS:-glue-runs}" seeds="${SEEDS:-0,1,2,3,4,5,6,7,8,9}"
[ "${SIZE:-small}" = base ] && rate=1e-4 || rate=3e-4
known MNLI RTE STS-B MRPC CoLA SST-2 QNLI QQP

for task in "${tasks[@]}"; do
  prepare "$task"
  options=(--lr "$rate") from="$CODEC"
  case "$task" in
    MNLI | QQP) options+=(--batch-size 128 --max-epoch 4) ;;
    RTE | STS-B) options+=(--max-epoch 10) ;;
    QNLI) options=(--lr 1e-4) ;;
  esac
  case "$task" in
    RTE | STS-B | MRPC) [ ! -d "$runs/MNLI" ] || from="$runs/MNLI/seed=${seeds%%,*}/checkpoint_last" ;;
  esac
  toolkit-train "$DATA/$task" --config "$here/glue.yaml" --finetune-from "$from" "${options[@]}" \
    --valid-subset "$(splits "$task")" --seeds "$seeds" --sweep.jobs "${JOBS:-1}" --save-dir "$runs/$task" \
    ${USER_DIR:+--user-dir "$USER_DIR"} ${EXTRA:-}
done
overview "$runs" -- "${tasks[@]}"
