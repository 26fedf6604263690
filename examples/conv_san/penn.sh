#!/usr/bin/env bash
# Table 2b of Dufter et al. 2020 on NLTK's sample of the Wall Street Journal: examples/conv_san/penn.sh FOLDER
# FOLDER: wsj_0001.mrg ... wsj_0199.mrg. Training 0001-0139, development 0140-0169, test 0170-0199; learned word vectors
# of width 300; a vocabulary of 40 % of the word types, as in the paper (20,000 of the whole treebank). Nine models,
# three seeds. For the whole treebank set TRAIN="0? 1[0-8]" DEV="19 2[01]" TEST="2[2-4]" KNOWN="--vocab-size 20000", and for the
# paper's word vectors VECTORS=wiki-news-300d-1M-subword.vec. Save directories are in RUNS (conv-san-runs/penn), data in DATA
# (conv-san-data/penn); JOBS runs at a time (2), one thread each. Restart it to resume.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
. "$here/train_rows.sh"
runs="${RUNS:-conv-san-runs/penn}" data="${DATA:-conv-san-data/penn}"
export OMP_NUM_THREADS=1
[ $# -eq 1 ] || usage "expected one folder of .mrg files, got $# arguments."

vectors=() options=()
if [ -n "${VECTORS:-}" ]; then
  vectors=(--word-vectors "$VECTORS" --max-word-vectors 100000)
  options=(--arch.word-vectors frozen)
fi
# shellcheck disable=SC2086  # patterns of files
pick() { (cd "$1" && printf "$1/%s\n" $2); }
mapfile -t train < <(pick "$1" "${TRAIN:-wsj_00??.mrg wsj_01[0-3]?.mrg}")
mapfile -t dev < <(pick "$1" "${DEV:-wsj_01[4-6]?.mrg}")
mapfile -t test < <(pick "$1" "${TEST:-wsj_01[7-9]?.mrg}")
[ -f "$data/meta.json" ] || toolkit-preprocess --format ptb --trainpref "${train[@]}" --validpref "${dev[@]}" \
  --testpref "${test[@]}" --vocabulary-from all ${KNOWN:---type-fraction 0.4} "${vectors[@]}" --destdir "$data"
for seeds in ${SEEDS:-0 0,1 0,1,2}; do
  train_rows "$data" "$runs" "$seeds" conv_san none concat add p r pr temp conv1d conv2d
done
print_tables conv_san "$runs" --name penn
