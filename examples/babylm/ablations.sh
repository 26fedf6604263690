#!/usr/bin/env bash
# Paired ablations of a small encoder at equal words: examples/babylm/ablations.sh TEXT...
# TEXT: files or folders of plain text, 10 million words in all.
# 1. Trains the encoder of ablations.yaml with each file of ablations/ (VARIANTS) on WORDS (200K) words, with SEEDS (1 2 3),
#    all variants with one seed before the next, one run at a time on one thread.
# 2. Measures the loss of the same masked words of held-out text for all of them.
# 3. Scores the pairs of EVAL/fast_eval, the download evaluation_data of the challenge, LIMIT (all) of each paradigm;
#    skipped without EVAL.
# A run takes half a minute of an idle core, all pairs three minutes more. Data are in DATA (ablations-data), checkpoints and
# results in RUNS (ablations-runs). Restart it to resume, with more seeds or variants to extend it. Ends with the tables.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
data="$(realpath -m "${DATA:-ablations-data}")" runs="$(realpath -m "${RUNS:-ablations-runs}")"
variants="${VARIANTS:-$(cd "$here/ablations" && ls -- *.yaml | sed 's/\.yaml$//')}"
evaluation="${EVAL:+$(realpath "$EVAL")/fast_eval}"
export OMP_NUM_THREADS=1

if [ ! -f "$data/meta.json" ]; then
  [ $# -gt 0 ] || usage "$data does not exist: give files or folders of plain text."
  toolkit-preprocess --trainpref "$(IFS=,; echo "$*")" --segment-by sentences --tokenizer bpe \
    --vocab-size "${VOCABULARY:-8192}" --valid-fraction 0.001 --test-fraction 0.01 --destdir "$data"
fi

measure() { # OPTION... -- RUN...: adds the test loss of runs that loss.jsonl lacks
  local options=()
  while [ "$1" != -- ]; do options+=("$1") && shift; done && shift
  [ $# = 0 ] || (cd "$runs" && toolkit-validate "$data" --valid-subset test --task.masking exact --task.mask-rate 0.15 \
    --all-checkpoints --results-path loss.jsonl "${options[@]}" --path "$@")
}

seeds=""
for seed in ${SEEDS:-1 2 3}; do
  seeds="$seeds${seeds:+,}$seed" files="$(printf '%s.yaml,' $variants)" masked=() hybrid=()
  (cd "$here/ablations" && toolkit-train "$data" --config ../ablations.yaml --grid "config=${files%,}" --seeds "$seeds" \
    --max-words "${WORDS:-200K}" --num-workers 0 --save-dir "$runs")
  for variant in $variants; do
    run="config=$variant.yaml,seed=$seed"
    if [ "$variant" = hybrid ]; then hybrid+=("$run"); else masked+=("$run"); fi
  done
  measure -- "${masked[@]}"
  measure --task.causal-ratio 0 -- "${hybrid[@]}"
done
[ -z "$evaluation" ] || (cd "$runs" && toolkit-validate "$evaluation" --suite "$here/pairs.yaml" \
  --precision fp32 ${LIMIT:+--limit "$LIMIT"} --all-checkpoints --path config=* --results-path pairs.jsonl)
print_tables babylm "$runs"
