#!/usr/bin/env bash
# The pictures of the pages on plots and minimal pairs: SENTENCES=FILE PAIRS=FILE examples/composite_bert/pictures.sh TEXT...
# TEXT: as for novels.sh. SENTENCES: one sentence per line. PAIRS: one pair per line, as in "A sentence. [SEP] Another."
# BLIMP (optional): https://github.com/alexwarstadt/blimp, for the plot of minimal pairs.
# Trains two models, JOBS (2) at a time, 8 minutes or more each on two cores. Save directories are in RUNS (picture-runs),
# data in DATA (novels-data). Restart it to resume.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
runs="${RUNS:-picture-runs}" data="${DATA:-novels-data}"
[ $# -gt 0 ] || usage "no text given."
[ -f "${SENTENCES:-}" ] && [ -f "${PAIRS:-}" ] || usage "SENTENCES and PAIRS must be text files."

train() { # NAME [OPTION...]
  toolkit-train "$data" --user-dir "$here" --arch table1_composite --task mlm --task.sample-mode blocks \
    --batch-size 32 --max-update 1500 --lr 2e-3 --warmup-updates 120 --log-interval 50 --save-dir "$runs/$1" "${@:2}"
}
draw() { # NAME KIND [OPTION...]: the picture, and its numbers for the repository
  toolkit-plot "$2" --user-dir "$here" --output "$runs/$1.png" --json "$runs/$1.jsonl" "${@:3}"
}

prepare_text "$data" "$@"
train composite &
[ "${JOBS:-2}" -gt 1 ] || wait $!
train depthwise --arch.depthwise true
wait
draw kernels kernels --path "$runs/composite" --sentences "$SENTENCES"
draw channels kernels --path "$runs/depthwise" --sentences "$SENTENCES" --radius 8
draw attention attention --path "$runs/composite" --layers 1,4 \
  --sentence "The old man opened the [MASK] and looked out into the night."
draw mean_attention attention --path "$runs/composite" "$runs/depthwise" --mean --sentences "$PAIRS" \
  --sentence "He said the foodservice pie business doesn't fit the company's long-term growth strategy."
numbers=("$runs"/{kernels,channels,attention,mean_attention}.jsonl)
if [ -n "${BLIMP:-}" ]; then
  toolkit-validate "$BLIMP/data" --user-dir "$here" --task minimal_pairs --path "$runs/composite" "$runs/depthwise" \
    --limit 100 --results-path "$runs/blimp.jsonl"
  toolkit-plot minimal-pairs "$runs/blimp.jsonl" "$BLIMP/raw_results/summary/models_summary.jsonl" \
    --output "$runs/minimal_pairs.png" --json "$runs/minimal_pairs.jsonl"
  numbers+=("$runs/minimal_pairs.jsonl")
fi
python "$examples/../tools/pack_pictures.py" "${numbers[@]}" --into "$here/pictures"
