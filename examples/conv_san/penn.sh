#!/usr/bin/env bash
# Table 2b of Dufter et al. 2020 on the sample of the Wall Street Journal that NLTK has:
# examples/conv_san/penn.sh FOLDER   (of wsj_0001.mrg ... wsj_0199.mrg)
# Training 0001-0139, development 0140-0169, test 0170-0199; words of 300 numbers, learnt; two fifths of
# the types known, which is what the paper's 20,000 are of the whole. Nine models, three seeds. With the
# whole treebank: TRAIN=0-18 DEV=19-21 TEST=22-24 KNOWN="--vocab-size 20000", and for the paper's
# vectors VECTORS=wiki-news-300d-1M-subword.vec. As treebanks.sh otherwise; results are in RUNS
# (conv-san-runs/penn), data in DATA (conv-san-data/penn).
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
runs="${RUNS:-conv-san-runs/penn}"
data="${DATA:-conv-san-data/penn}"
export OMP_NUM_THREADS=1
[ $# -eq 1 ] || { echo "usage: $0 FOLDER   (of .mrg files, or of folders of them)" >&2; exit 2; }

rows=none,concat,add,p,r,pr,temp,conv1d,conv2d
models="conv_san_${rows//,/,conv_san_}"
vectors=() given=()
if [ -n "${VECTORS:-}" ]; then
  vectors=(--word-vectors "$VECTORS" --word-vectors-first 100000)
  given=(--arch.word-vectors frozen)
fi
[ -f "$data/meta.json" ] || toolkit-preprocess --format ptb --trainpref "$1" --validpref "$1" --testpref "$1" \
  --train-sections "${TRAIN:-0001-0139}" --valid-sections "${DEV:-0140-0169}" --test-sections "${TEST:-0170-0199}" \
  --vocabulary-from all ${KNOWN:---type-share 0.4} "${vectors[@]}" --destdir "$data"
for seeds in ${SEEDS:-0 0,1 0,1,2}; do
  toolkit-train "$data" --config "$here/recipe.yaml" "${given[@]}" --grid "arch=$models" --seeds "$seeds" \
    --sweep.jobs "${JOBS:-2}" --save-dir "$runs"
done
