#!/usr/bin/env bash
# The five rows of Chang et al. 2021, Table 1, pre-trained on novels: examples/composite_bert/novels.sh TEXT...
# TEXT: files or folders of plain text (.txt, .gz, .xz). 15 runs, JOBS (2) at a time, of 6 minutes or more each on two
# cores. Save directories are in RUNS (novels-runs), data in DATA (novels-data). Restart it to resume.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
runs="${RUNS:-novels-runs}" data="${DATA:-novels-data}"
[ $# -gt 0 ] || usage "no text given."

prepare_text "$data" "$@"
toolkit-train "$data" --user-dir "$here" --task mlm --task.sample-mode blocks \
  --grid arch=table1_none,table1_absolute,table1_fixed,table1_dynamic,table1_composite \
  --seeds 0,1,2 --sweep.jobs "${JOBS:-2}" --save-dir "$runs" --checkpoint.no-save \
  --batch-size 32 --max-update 1200 --lr 2e-3 --warmup-updates 120 \
  --log-interval 50 --validate-interval-updates 200
print_tables composite_bert "$runs"
