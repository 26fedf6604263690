# Sourced by the scripts of this folder.

train_rows() { # DATA RUNS SEEDS ARCH ROW...: train rows of the paper's table, JOBS (2) at a time, in RUNS/ROW
  local data="$1" runs="$2" seeds="$3" arch="$4" && shift 4
  printf '%s\n' "$@" | xargs -P "${JOBS:-2}" -I ROW toolkit-train "$data" --config recipe:dufter2020 \
    --config "$here/rows/ROW.yaml" --arch "$arch" ${options+"${options[@]}"} --seeds "$seeds" --save-dir "$runs/ROW"
}
