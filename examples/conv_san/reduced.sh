#!/usr/bin/env bash
# Treebanks without their training set: examples/conv_san/reduced.sh TREEBANK...
# TREEBANK: folders with *-dev and *-test.conllu (or .xz). Trains on the first 90 % of the development sentences, stops
# by the others, and evaluates on the complete test set. Baseline and 2d convolution, three seeds. Save directories are
# in RUNS (conv-san-runs/reduced), data in DATA (conv-san-data/reduced); JOBS runs at a time (2). Restart it to resume.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
. "$here/train_rows.sh"
runs="${RUNS:-conv-san-runs/reduced}" data="${DATA:-conv-san-data/reduced}"
export OMP_NUM_THREADS=1
[ $# -gt 0 ] || usage "no treebank given."

for seeds in ${SEEDS:-0 0,1 0,1,2}; do
  for folder in "$@"; do
    name="$(basename "$folder")" && name="${name#UD_}"
    if [ ! -f "$data/$name/meta.json" ]; then
      parts="$(mktemp -d)" && trap 'rm -rf "$parts"' EXIT
      python "$here/split_dev.py" "$(echo "$folder"/*-dev.conllu*)" "$parts"
      toolkit-preprocess --format conllu --trainpref "$parts/train.conllu" --validpref "$parts/dev.conllu" \
        --testpref "$(echo "$folder"/*-test.conllu*)" --unseen-tags wrong \
        --vocabulary-from all --type-fraction 0.5 --destdir "$data/$name"
      rm -r "$parts"
    fi
    train_rows "$data/$name" "$runs/$name" "$seeds" conv_san_ud add conv2d
  done
done
print_tables conv_san "$runs" --name reduced
