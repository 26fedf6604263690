#!/usr/bin/env bash
# What pre-training is worth on GLUE, on a laptop: examples/glue/short.sh GLUE_DATA [TEXT...]
# GLUE_DATA: the benchmark's folder; tasks that it does not hold are left out. TEXT: files or folders of plain text
# to pre-train on, 10 MB or more; none where TEXT_DATA (short/text) is binarized already.
# 1. pre-trains two encoders of 2.9 million parameters, with composite attention and with absolute positions, for
#    UPDATES (12000) updates of 32 pairs of segments, 128 tokens each;
# 2. fine-tunes the first, and the same net from scratch, on seven tasks with SEEDS (0,1,2): table.md;
# 3. fine-tunes both encoders on CoLA with POSITION_SEEDS (0,1,2,3,4): positions.md.
# About two hours on two cores. Everything is in RUNS (short), JOBS runs at a time (2), one thread each. Stop it
# whenever you like: it goes on where it was. EXTRA: further options of every fine-tuning, such as "--max-update 3".
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
. "$here/tasks.sh"
[ $# -gt 0 ] || usage "the folder of GLUE is needed"
GLUE="$1" runs="${RUNS:-short}" && shift
DATA="$runs/data" CODEC="${TEXT_DATA:-$runs/text}" plugin="$here/../composite_bert"
seeds="${SEEDS:-0,1,2}" position_seeds="${POSITION_SEEDS:-0,1,2,3,4}" updates="${UPDATES:-12000}"
export OMP_NUM_THREADS=1
known CoLA MRPC STS-B QNLI MNLI QQP SST-2

if [ ! -f "$CODEC/meta.json" ]; then
  [ $# -gt 0 ] || usage "text to pre-train on is needed"
  toolkit-preprocess --trainpref "$(IFS=,; echo "$*")" --units sentences --lowercase --vocab-size "${VOCABULARY:-8000}" \
    --valid-share 0.01 --destdir "$CODEC"
fi
toolkit-train "$CODEC" --user-dir "$plugin" --task mlm --task.pairs electra --optimizer muon \
  --grid arch=table1_composite,table1_absolute --seeds 0 --sweep.jobs "${JOBS:-2}" \
  --batch-size 32 --max-update "$updates" --lr 2e-3 --warmup-share 0.1 \
  --save-interval-updates 500 --keep-last-epochs 1 --validate-interval-updates 1000 --save-dir "$runs/pretrained"

epochs() { # of a task: the paper's, fewer for STS-B (ten) and the largest
  case "$1" in STS-B) echo 5 ;; MNLI | QQP) echo 4 ;; SST-2) echo 2 ;; *) echo 3 ;; esac
}

tune() { # task, name of the encoder, seeds, where it comes from
  local task="$1" name="$2" seeds="$3" && shift 3
  toolkit-train "$DATA/$task" --user-dir "$plugin" --config "$here/recipe.yaml" --seeds "$seeds" \
    --sweep.jobs "${JOBS:-2}" --max-epoch "$(epochs "$task")" --save-dir "$runs/$name/$task" "$@" ${EXTRA:-}
}

pretrained() { echo "$runs/pretrained/arch=table1_$1,seed=0/checkpoint_last"; }

for task in "${tasks[@]}"; do
  prepare "$task"
  tune "$task" composite "$seeds" --finetune-from "$(pretrained composite)"
  tune "$task" scratch "$seeds" --arch table1_composite
  if [ "$task" = CoLA ]; then
    tune CoLA composite "$position_seeds" --finetune-from "$(pretrained composite)"
    tune CoLA absolute "$position_seeds" --finetune-from "$(pretrained absolute)"
  fi
done
python "$here/table.py" "$DATA" "$runs/composite" "$runs/scratch" | tee "$runs/table.md"
[ ! -d "$runs/absolute/CoLA" ] || python "$here/positions.py" "$runs" | tee "$runs/positions.md"
