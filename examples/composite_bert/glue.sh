#!/usr/bin/env bash
# Chang et al. 2021, Table 5: examples/composite_bert/glue.sh CHECKPOINT GLUE_DATA
# Fine-tunes a pre-trained model on every GLUE task with ten seeds (SEEDS) and prints means, standard errors and best
# scores. RTE, STS-B and MRPC start from the MNLI model of the first seed. SIZE: small or base. Save directories are in
# RUNS (glue-runs), data in DATA (glue-data); JOBS runs at a time (1). Finished runs are skipped. EXTRA: further options
# of every run (EXTRA="--max-update 3"). USER_DIR: plugin folder of the checkpoint.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
[ $# -eq 2 ] || usage "expected 2 arguments, got $#."
TOKENIZER="$1" GLUE="$2" DATA="${DATA:-glue-data}" runs="${RUNS:-glue-runs}" seeds="${SEEDS:-0,1,2,3,4,5,6,7,8,9}"
[ "${SIZE:-small}" = base ] && rate=1e-4 || rate=3e-4
find_glue_tasks MNLI RTE STS-B MRPC CoLA SST-2 QNLI QQP

for task in "${tasks[@]}"; do
  prepare_glue_task "$task"
  options=(--lr "$rate") from="$TOKENIZER"
  case "$task" in
    MNLI | QQP) options+=(--batch-size 128 --max-epoch 4) ;;
    RTE | STS-B) options+=(--max-epoch 10) ;;
    QNLI) options=(--lr 1e-4) ;;
  esac
  case "$task" in
    RTE | STS-B | MRPC) [ ! -d "$runs/MNLI" ] || from="$runs/MNLI/seed=${seeds%%,*}/checkpoint_last" ;;
  esac
  toolkit-train "$DATA/$task" --config recipe:chang2021-glue --finetune-from "$from" "${options[@]}" \
    --valid-subset "$(valid_subsets "$task")" --seeds "$seeds" --sweep.jobs "${JOBS:-1}" --save-dir "$runs/$task" \
    ${USER_DIR:+--user-dir "$USER_DIR"} ${EXTRA:-}
done
print_glue_table "$runs" -- "${tasks[@]}"
