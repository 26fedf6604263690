#!/usr/bin/env bash
# What rules for ties, rounding and length do to scores on minimal pairs: examples/ties/run.sh TEXT...
# TEXT: files or folders of plain text to pre-train on, 10 MB or more. BLIMP: the folder of BLiMP's .jsonl files.
# Trains small versions of the encoders of examples/positions (TERMS) with SEEDS (0 1 2 3 4) for UPDATES (1000) updates,
# one after another, and scores LIMIT (100) pairs of each paradigm in fp32 and in bf16. A run takes three minutes on one
# core, those of TACO longer. What is counted of each run is a line of RECORDS/counts.jsonl (here); runs that it has are not repeated, so name
# another folder for your own. Checkpoints are in RUNS (ties-runs), data in DATA (ties-data). Restart it to resume.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
runs="${RUNS:-ties-runs}" data="${DATA:-ties-data}" records="${RECORDS:-$here}" positions="$examples/positions"
export OMP_NUM_THREADS=1

train() { # TERM SEED FOLDER
  local task=mlm shape=(--width 96 --embedding-width 64)
  case "$1" in taco*) shape=(--word-width 84 --position-width 12 --relative-width 96) ;; esac
  [ "$1" != taco ] || task=mpm
  toolkit-train "$data" --user-dir "$positions" --task "$task" --task.masking bernoulli --task.pair-mode electra \
    --arch "order_$1" --layers 2 "${shape[@]}" --optimizer muon --batch-size 32 --lr 4e-3 \
    --warmup-fraction 0.1 --max-update "${UPDATES:-1000}" --seed "$2" --keep-last-epochs 1 --save-dir "$3"
}

score() { # FOLDER PRECISION: the scores of both sentences of each pair
  toolkit-validate "$BLIMP" --task minimal_pairs --limit "${LIMIT:-100}" --precision "$2" --path "$1/checkpoint_last" \
    --user-dir "$positions" --predictions "$1/$2.jsonl"
}

[ -n "${BLIMP:-}" ] || usage "set BLIMP to the folder of BLiMP's .jsonl files."
prepare_text "$data" "$@"
mkdir -p "$records" && touch "$records/counts.jsonl"
terms="none learned sinusoidal alibi rope t5 shaw xl deberta fixed composite depthwise convbert taco_words taco"
for term in ${TERMS:-$terms}; do
  for seed in ${SEEDS:-0 1 2 3 4}; do
    folder="$runs/order_$term,seed=$seed"
    if grep -q "\"run\": \"$term,seed=$seed\"" "$records/counts.jsonl"; then continue; fi
    train "$term" "$seed" "$folder"
    score "$folder" fp32
    score "$folder" bf16
    python "$here/count.py" "$folder" >> "$records/counts.jsonl"
  done
done
print_tables ties "$records"
