#!/usr/bin/env bash
# Transformer, LightConv and DynamicConv on Multi30k, English to German: examples/translation/multi30k.sh FOLDER
# FOLDER: train, val and test_2016_flickr, each .en and .de, plain or .gz. Six runs (three architectures, two seeds),
# JOBS (2) at a time with one thread each, of about 40 minutes each. Then averages the last ten checkpoints of each run,
# translates test_2016_flickr with beam size 5 and prints a table. Save directories are in RUNS (multi30k-runs), data in
# DATA (multi30k-data). Restart it to resume.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
[ $# -eq 1 ] || usage "expected one folder, got $# arguments."
text="$1" runs="${RUNS:-multi30k-runs}" data="${DATA:-multi30k-data}"
export OMP_NUM_THREADS=1

[ -f "$data/meta.json" ] || toolkit-preprocess --source-lang en --target-lang de \
  --trainpref "$text/train" --validpref "$text/val" --testpref "$text/test_2016_flickr" \
  --joined-dictionary --sentencepiece-type bpe --vocab-size 8000 --character-coverage 1.0 --destdir "$data"
toolkit-train "$data" --config "$here/multi30k.yaml" --seeds "${SEEDS:-1,2}" --sweep.jobs "${JOBS:-2}" \
  --grid "arch=${ARCHS:-transformer_tiny,lightconv_tiny,dynamicconv_tiny}" \
  --sweep.metric bleu --save-dir "$runs" --max-update "${UPDATES:-5000}"

translate() { # CHECKPOINT OUTPUT
  if [ ! -f "$2.done" ]; then
    toolkit-generate "$data" --path "$1" --gen-subset test --beam 5 --results-path "$2.jsonl" > "$2.de"
    touch "$2.done"
  fi
}
for run in "$runs"/arch=*; do
  [ -d "$run/averaged" ] || toolkit-average "$run" --last "${AVERAGE:-10}" --kind epochs --output "$run/averaged"
  translate "$run" "$run/best"
  translate "$run/averaged" "$run/averaged-10"
done
python "$here/scores.py" "$runs" --into "$runs/scores.jsonl"
