#!/usr/bin/env bash
# Treebanks whose training part is missing: examples/conv_san/reduced.sh TREEBANK...
# The first 90 % of the development part's sentences are trained on and the rest decides when to stop;
# the test part is as it is. Baseline and 2d convolution, three seeds. As treebanks.sh otherwise;
# results are in RUNS (conv-san-runs/reduced), data in DATA (conv-san-data/reduced).
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
runs="${RUNS:-conv-san-runs/reduced}"
data="${DATA:-conv-san-data/reduced}"
export OMP_NUM_THREADS=1
[ $# -gt 0 ] || { echo "usage: $0 TREEBANK...   (folders with *-dev and *-test.conllu, or .xz)" >&2; exit 2; }

for seeds in ${SEEDS:-0 0,1 0,1,2}; do
  for folder in "$@"; do
    name="$(basename "$folder")" && name="${name#UD_}"
    if [ ! -f "$data/$name/meta.json" ]; then
      parts="$(mktemp -d)" && trap 'rm -rf "$parts"' EXIT
      python "$here/split_dev.py" "$(echo "$folder"/*-dev.conllu*)" "$parts"
      toolkit-preprocess --format conllu --trainpref "$parts/train.conllu" --validpref "$parts/dev.conllu" \
        --testpref "$(echo "$folder"/*-test.conllu*)" --unseen-tags wrong \
        --vocabulary-from all --type-share 0.5 --destdir "$data/$name"
      rm -r "$parts"
    fi
    toolkit-train "$data/$name" --config "$here/recipe.yaml" --seeds "$seeds" \
      --grid arch=conv_san_ud_add,conv_san_ud_conv2d --sweep.jobs "${JOBS:-2}" --save-dir "$runs/$name"
  done
done
