#!/usr/bin/env bash
# Tables 2c and 2d of Dufter et al. 2020: examples/conv_san/treebanks.sh TREEBANK...
# TREEBANK: folders of Universal Dependencies (UD_English-GUM) with *-train, *-dev and *-test.conllu. Five models and
# three seeds for each (ROWS: add pr temp conv1d conv2d). Save directories are in RUNS (conv-san-runs/ud), data in DATA (conv-san-data/ud); JOBS runs at a
# time (2), one thread each. SEEDS=0 stops after one seed. Restart it to resume.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
. "$here/train_rows.sh"
runs="${RUNS:-conv-san-runs/ud}" data="${DATA:-conv-san-data/ud}"
rows="${ROWS:-add pr temp conv1d conv2d}"
export OMP_NUM_THREADS=1
[ $# -gt 0 ] || usage "no treebank given."

# The first seed of every treebank comes first; further seeds add the deviation.
for seeds in ${SEEDS:-0 0,1 0,1,2}; do
  for folder in "$@"; do
    name="$(basename "$folder")" && name="${name#UD_}"
    prepare_treebank "$data/$name" "$folder" --vocabulary-from all --type-fraction 0.5
    train_rows "$data/$name" "$runs/$name" "$seeds" conv_san_ud $rows
  done
done
print_tables conv_san "$runs" --name ud
