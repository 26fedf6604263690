#!/usr/bin/env bash
# Transformer, LightConv and DynamicConv on Multi30k, English to German: examples/translation/multi30k.sh FOLDER
# FOLDER: train, val and test_2016_flickr, each .en and .de, plain or .gz. Six runs, three architectures
# with two seeds, JOBS (2) at a time with one thread each, of about 40 minutes each; then the last ten
# checkpoints of each are averaged, test_2016 is translated with beam 5, and a table is printed. Stop it
# whenever you like: it goes on where it was. Runs are in RUNS (multi30k-runs), data in DATA (multi30k-data).
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
[ $# -eq 1 ] || { echo "usage: $0 FOLDER   (see its first lines)" >&2; exit 2; }
text="$1" runs="${RUNS:-multi30k-runs}" data="${DATA:-multi30k-data}"
export OMP_NUM_THREADS=1

[ -f "$data/meta.json" ] || toolkit-preprocess --source-lang en --target-lang de \
  --trainpref "$text/train" --validpref "$text/val" --testpref "$text/test_2016_flickr" \
  --joined-dictionary --sentencepiece-type bpe --vocab-size 8000 --character-coverage 1.0 --destdir "$data"
toolkit-train "$data" --config "$here/multi30k.yaml" --seeds "${SEEDS:-1,2}" --sweep.jobs "${JOBS:-2}" \
  --grid "arch=${ARCHS:-transformer_tiny,lightconv_tiny,dynamicconv_tiny}" \
  --sweep.metric bleu --save-dir "$runs" --max-update "${UPDATES:-5000}"

translate() { # checkpoint, where to
  if [ ! -f "$2.done" ]; then
    toolkit-generate "$data" --path "$1" --gen-subset test --beam 5 --results-path "$2.jsonl" > "$2.de"
    touch "$2.done"
  fi
}
for run in "$runs"/arch=*; do
  [ -d "$run/averaged" ] || toolkit-average "$run" --last "${AVERAGE:-10}" --among epochs --output "$run/averaged"
  translate "$run" "$run/best"
  translate "$run/averaged" "$run/averaged-10"
done
python "$here/scores.py" "$runs"
