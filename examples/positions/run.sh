#!/usr/bin/env bash
# Compares encoders with different position information: examples/positions/run.sh TEXT...
# TEXT: files or folders of plain text to pre-train on, 10 MB or more.
# 1. Pre-trains encoders of 2.9 million parameters that differ in their position terms (TERMS) for UPDATES (10500)
#    updates of 32 pairs of segments, about 41 million tokens, with SEEDS (0,1), JOBS (2) at a time, one thread each.
# 2. Scores the minimal pairs of BLIMP, the folder of BLiMP's .jsonl files, with each of them, and prints the tables;
#    skipped without it. LIMIT: pairs of each paradigm (all 1000).
# A run takes 45 minutes on one core, TACO's up to three hours. Save directories are in RUNS (positions-runs), data in DATA
# (positions-data). Restart it to resume. Another number of updates or pairs needs another RUNS, as for a first look in a
# few minutes: RUNS=first-look UPDATES=300 SEEDS=0 TERMS=none,rope
set -euo pipefail
. "$(dirname "$0")/../common.sh"
runs="${RUNS:-positions-runs}" data="${DATA:-positions-data}"
terms="${TERMS:-none,learned,sinusoidal,alibi,rope,t5,shaw,xl,deberta,fixed,composite,depthwise,convbert,taco_words,taco}"
export OMP_NUM_THREADS=1

train() { # TASK TERMS: all of them with all seeds
  toolkit-train "$data" --user-dir "$here" --task "$1" --task.masking bernoulli --task.pair-mode electra --optimizer muon \
    --grid "arch=order_${2//,/,order_}" --seeds "${SEEDS:-0,1}" --sweep.jobs "${JOBS:-2}" --batch-size 32 \
    --max-update "${UPDATES:-10500}" --lr 2e-3 --warmup-fraction 0.1 --save-interval-updates 500 --keep-last-epochs 1 \
    --validate-interval-updates 1000 --save-dir "$runs/$1"
}

prepare_text "$data" "$@"
words=$(echo "$terms" | tr , '\n' | grep -vx taco | paste -sd,) || true
[ -z "$words" ] || train mlm "$words"
case ",$terms," in *,taco,*) train mpm taco ;; esac

[ -n "${BLIMP:-}" ] || { echo "set BLIMP to the folder of BLiMP's .jsonl files to score its pairs" >&2; exit 0; }
score() { # RUN: the accuracies of its last checkpoint, unless they exist
  [ -s "$1/minimal_pairs.jsonl" ] || toolkit-validate "$BLIMP" --task minimal_pairs --precision fp32 --path "$1/checkpoint_last" \
    --user-dir "$here" --results-path "$1/minimal_pairs.jsonl" ${LIMIT:+--limit "$LIMIT"} > "$1/minimal_pairs.txt" 2>&1
}
export -f score && export BLIMP here LIMIT
printf '%s\0' "$runs"/*/arch=* | xargs -0 -n 1 -P "${JOBS:-2}" bash -c 'score "$1"' _
pairs=("$runs"/*/arch=*/minimal_pairs.jsonl)
cat "${pairs[@]}" > "$runs/minimal_pairs.jsonl"
print_tables positions "$runs" | tee "$runs/tables.md"
toolkit-plot minimal-pairs "${pairs[@]}" --output "$runs/minimal_pairs.png"
