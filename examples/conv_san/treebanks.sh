#!/usr/bin/env bash
# Table 2c and 2d of Dufter et al. 2020: examples/conv_san/treebanks.sh TREEBANK...
# TREEBANK: folders of Universal Dependencies (UD_English-GUM) with *-train, *-dev and *-test.conllu.
# Five models and three seeds for each; stop it whenever you like, it goes on where it was. Results are
# in RUNS (conv-san-runs/ud), data in DATA (conv-san-data/ud); JOBS runs at a time (2), one thread each.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
runs="${RUNS:-conv-san-runs/ud}"
data="${DATA:-conv-san-data/ud}"
models="${MODELS:-conv_san_ud_add,conv_san_ud_pr,conv_san_ud_temp,conv_san_ud_conv1d,conv_san_ud_conv2d}"
export OMP_NUM_THREADS=1
[ $# -gt 0 ] || { echo "usage: $0 TREEBANK...   (folders with *-train, *-dev, *-test.conllu)" >&2; exit 2; }

# After the first seed every treebank has a figure for every model; further seeds say how sure it is.
for seeds in ${SEEDS:-0 0,1 0,1,2}; do
  for folder in "$@"; do
    name="$(basename "$folder")" && name="${name#UD_}"
    [ -f "$data/$name/meta.json" ] || toolkit-preprocess --format conllu \
      --trainpref "$(echo "$folder"/*-train.conllu)" --validpref "$(echo "$folder"/*-dev.conllu)" \
      --testpref "$(echo "$folder"/*-test.conllu)" \
      --vocabulary-from all --type-share 0.5 --destdir "$data/$name"
    toolkit-train "$data/$name" --config "$here/recipe.yaml" --grid "arch=$models" --seeds "$seeds" \
      --sweep.jobs "${JOBS:-2}" --save-dir "$runs/$name"
  done
done
