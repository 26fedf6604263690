#!/usr/bin/env bash
# TACO, Table 8: examples/taco/reading.sh CHECKPOINT BENCHMARK TRAIN [DEV]
# Fine-tunes a pre-trained model on BENCHMARK (squad, race or swag) with each of its settings and five seeds (SEEDS) and
# prints medians. TRAIN and DEV are its files; for RACE, TRAIN is its folder. LR, BATCH and EPOCHS select fewer settings.
# Save directories are in RUNS (reading-runs), data in DATA (reading-data); JOBS runs at a time (1). Finished runs are
# skipped. EXTRA: further options of every run. USER_DIR: plugin folder of the checkpoint.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
[ $# -ge 3 ] || usage "expected a checkpoint, a benchmark and its files, got $# arguments."
checkpoint="$1" name="$2" data="${DATA:-reading-data}/$2"
case "$name" in
  squad) settings=(--grid "lr=${LR:-1e-5,2e-5,3e-5,5e-5}" --grid "max_epoch=${EPOCHS:-2,3,4,5}") ;;
  race) settings=() ;;
  swag) settings=(--grid "lr=${LR:-1e-5,1.5e-5,2e-5}" --grid "batch_size=${BATCH:-16,32}" --grid "max_epoch=${EPOCHS:-4,5}") ;;
  *) usage "unknown benchmark $name: expected squad, race or swag." ;;
esac
[ -f "$data/meta.json" ] || toolkit-preprocess --format "$name" --trainpref "$3" ${4:+--validpref "$4"} \
  --tokenizer-from "$checkpoint" --destdir "$data"
toolkit-train "$data" --config "recipe:taco-$name" --finetune-from "$checkpoint" "${settings[@]}" \
  --seeds "${SEEDS:-0,1,2,3,4}" --sweep.rank-by median --sweep.jobs "${JOBS:-1}" --checkpoint.no-save \
  --save-dir "${RUNS:-reading-runs}/$name" ${USER_DIR:+--user-dir "$USER_DIR"} ${EXTRA:-}
