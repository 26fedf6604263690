#!/usr/bin/env bash
# Language models with absolute positions and with relative terms: examples/language_modeling/novels.sh TEXT...
# TEXT: files or folders of plain text (.txt, .gz, .xz). Six models with two seeds (SEEDS), JOBS (2) at a time with one
# thread each, of about ten minutes each; then prints perplexities on the held-out text. Save directories are in RUNS
# (novels-lm), data in DATA (novels-data). Restart it to resume.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
runs="${RUNS:-novels-lm}" data="${DATA:-novels-data}" seeds="${SEEDS:-1,2}" updates="${UPDATES:-1500}"
export OMP_NUM_THREADS=1

prepare_text "$data" "$@"
learn() { # SAVE_DIR [OPTION...]
  local save="$1" && shift
  toolkit-train "$data" --config "$here/novels.yaml" --seeds "$seeds" --sweep.jobs "${JOBS:-2}" \
    --sweep.metric ppl --save-dir "$save" --max-update "$updates" "$@"
}
learn "$runs/absolute" --grid arch.positions=sinusoidal,learned
learn "$runs/relative" --grid "arch.positions=t5;shaw;composite"
learn "$runs/neither" --arch.positions none
print_tables language_modeling "$runs"
