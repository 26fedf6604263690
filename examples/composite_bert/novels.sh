#!/usr/bin/env bash
# The five rows of Chang et al. 2021, Table 1, learnt from novels: examples/composite_bert/novels.sh TEXT...
# TEXT: files or folders of plain text (.txt, .gz, .xz). 15 runs, two at a time, of 6 minutes or more
# each on two cores; stop it whenever you like, it goes on where it was. Results are in RUNS (novels-runs).
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
runs="${RUNS:-novels-runs}"
data="${DATA:-novels-data}"
[ $# -gt 0 ] || { echo "usage: $0 TEXT...   (files or folders of plain text)" >&2; exit 2; }

[ -f "$data/meta.json" ] || toolkit-preprocess --trainpref "$(IFS=,; echo "$*")" \
  --units sentences --lowercase --vocab-size 8000 --valid-share 0.01 --destdir "$data"
toolkit-train "$data" --user-dir "$here" --task mlm --task.samples blocks \
  --grid arch=table1_none,table1_absolute,table1_fixed,table1_dynamic,table1_composite \
  --seeds 0,1,2 --sweep.jobs "${JOBS:-2}" --save-dir "$runs" --checkpoint.no-save \
  --batch-size 32 --max-update 1200 --lr 2e-3 --warmup-updates 120 \
  --log-interval 50 --validate-interval-updates 200
