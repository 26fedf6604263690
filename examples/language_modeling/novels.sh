#!/usr/bin/env bash
# Language models of novels, absolute positions against relative terms: examples/language_modeling/novels.sh TEXT...
# TEXT: files or folders of plain text (.txt, .gz, .xz). Six models with two seeds, JOBS (2) at a time with
# one thread each, of about ten minutes each; at the end a table of perplexities of the held-out text. Stop
# it whenever you like: it goes on where it was. Runs are in RUNS (novels-lm), data in DATA (novels-data).
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
runs="${RUNS:-novels-lm}" data="${DATA:-novels-data}" seeds="${SEEDS:-1,2}" updates="${UPDATES:-1500}"
export OMP_NUM_THREADS=1

if [ ! -f "$data/meta.json" ]; then
  [ $# -gt 0 ] || { echo "usage: $0 TEXT...   (see its first lines)" >&2; exit 2; }
  toolkit-preprocess --trainpref "$(IFS=,; echo "$*")" --units sentences --lowercase --vocab-size 8000 \
    --valid-share 0.01 --destdir "$data"
fi
learn() { # where to, further options
  local save="$1" && shift
  toolkit-train "$data" --config "$here/novels.yaml" --seeds "$seeds" --sweep.jobs "${JOBS:-2}" \
    --sweep.metric ppl --save-dir "$save" --max-update "$updates" "$@"
}
learn "$runs/absolute" --grid arch.positions=sinusoidal,learnt
learn "$runs/relative" --arch.positions none --grid arch.relative=t5,shaw,composite
learn "$runs/neither" --arch.positions none
python "$here/table.py" "$runs"
