#!/usr/bin/env bash
# The gain of pre-training on GLUE, on a laptop: examples/glue/short.sh GLUE_DATA [TEXT...]
# GLUE_DATA: the benchmark's folder; missing tasks are skipped. TEXT: files or folders of plain text to pre-train on,
# 10 MB or more; not needed if TEXT_DATA (short/text) is already binarized.
# 1. Pre-trains two encoders of 2.9 million parameters, with composite attention and with absolute positions: UPDATES
#    (12000) updates of 32 pairs of segments, 128 tokens each.
# 2. Fine-tunes the first one, and the same network from scratch, on seven tasks with SEEDS (0,1,2).
# 3. Fine-tunes both encoders on CoLA with POSITION_SEEDS (0,1,2,3,4).
# Takes about two hours on two cores. Output is in RUNS (short), the tables in tables.md; JOBS runs at a time (2), one
# thread each. Restart it to resume. EXTRA: further options of every fine-tuning run, such as "--max-update 3".
set -euo pipefail
. "$(dirname "$0")/../common.sh"
[ $# -gt 0 ] || usage "the folder of GLUE is missing."
GLUE="$1" runs="${RUNS:-short}" && shift
DATA="$runs/data" TOKENIZER="${TEXT_DATA:-$runs/text}" plugin="$here/../composite_bert"
seeds="${SEEDS:-0,1,2}" position_seeds="${POSITION_SEEDS:-0,1,2,3,4}" updates="${UPDATES:-12000}"
export OMP_NUM_THREADS=1
find_glue_tasks CoLA MRPC STS-B QNLI MNLI QQP SST-2

prepare_text "$TOKENIZER" "$@"
toolkit-train "$TOKENIZER" --user-dir "$plugin" --task mlm --task.pair-mode electra --optimizer muon \
  --grid arch=table1_composite,table1_absolute --seeds 0 --sweep.jobs "${JOBS:-2}" \
  --batch-size 32 --max-update "$updates" --lr 2e-3 --warmup-fraction 0.1 \
  --save-interval-updates 500 --keep-last-epochs 1 --validate-interval-updates 1000 --save-dir "$runs/pretrained"

epochs() { # TASK: as in the paper, but fewer for STS-B (ten in the paper) and SST-2 (three)
  case "$1" in STS-B) echo 5 ;; MNLI | QQP) echo 4 ;; SST-2) echo 2 ;; *) echo 3 ;; esac
}

tune() { # TASK NAME SEEDS [OPTION...]
  local task="$1" name="$2" seeds="$3" && shift 3
  toolkit-train "$DATA/$task" --user-dir "$plugin" --config recipe:chang2021-glue --num-workers 0 --seeds "$seeds" \
    --checkpoint.no-save --sweep.jobs "${JOBS:-2}" --max-epoch "$(epochs "$task")" --save-dir "$runs/$name/$task" "$@" ${EXTRA:-}
}

pretrained() { echo "$runs/pretrained/arch=table1_$1,seed=0/checkpoint_last"; }

for task in "${tasks[@]}"; do
  prepare_glue_task "$task"
  tune "$task" composite "$seeds" --finetune-from "$(pretrained composite)"
  tune "$task" scratch "$seeds" --arch table1_composite
  if [ "$task" = CoLA ]; then
    tune CoLA composite "$position_seeds" --finetune-from "$(pretrained composite)"
    tune CoLA absolute "$position_seeds" --finetune-from "$(pretrained absolute)"
  fi
done
python "$here/majority.py" "$DATA" > "$runs/majority.json"
print_tables glue "$runs" | tee "$runs/tables.md"
