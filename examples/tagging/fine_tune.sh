#!/usr/bin/env bash
# Pre-trained encoders and conv_san on one treebank: examples/tagging/fine_tune.sh TREEBANK SAVE_DIR...
# TREEBANK: a folder with *-train, *-dev and *-test.conllu. SAVE_DIR: of toolkit-train runs (mlm, mpm, rtd); each is
# fine-tuned with three seeds (SEEDS), in a folder of the same name. Save directories are in RUNS (tagging-runs), data in
# DATA (tagging-data); JOBS runs at a time (2), one thread each. USER_DIR: plugin folder of the checkpoints. Restart it
# to resume.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
[ $# -gt 1 ] || usage "expected a treebank and save directories, got $# arguments."
treebank="$1" && shift
runs="${RUNS:-tagging-runs}" data="${DATA:-tagging-data}" seeds="${SEEDS:-0,1,2}"
for saved in "$@"; do
  [ -d "$saved/checkpoint_best" ] ||
    { echo "$saved has no checkpoint_best: expected a save directory of toolkit-train." >&2 && exit 2; }
done
duplicate="$(for saved in conv_san words "$@"; do basename "$saved"; done | sort | uniq -d)"
[ -z "$duplicate" ] ||
  { echo "the name $duplicate is used twice: link one save directory to another name." >&2 && exit 2; }
plugin=() && [ -z "${USER_DIR:-}" ] || plugin=(--user-dir "$USER_DIR")
export OMP_NUM_THREADS=1

train() { # DATA SAVE_DIR [OPTION...]
  local folder="$1" save="$2" && shift 2
  toolkit-train "$folder" --config "$here/recipe.yaml" --seeds "$seeds" --sweep.jobs "${JOBS:-2}" \
    --save-dir "$save" "${plugin[@]}" "$@"
}

evaluate() { # DATA NAME
  toolkit-validate "$1" "${plugin[@]}" --path "$runs/$2"/seed=* --valid-subset test --results-path "$runs/$2.json"
}

prepare_treebank "$data/words" "$treebank" --unseen-tags wrong
train "$data/words" "$runs/conv_san" --arch "${ARCH:-conv_san_ud}" --optimizer rmsprop --lr 1e-3 \
  --lr-scheduler fixed --max-epoch "${CONV_SAN_EPOCHS:-100}" --clip-norm 0
evaluate "$data/words" conv_san
for saved in "$@"; do
  name="$(basename "$saved")" checkpoint="$saved/checkpoint_best"
  prepare_treebank "$data/$name" "$treebank" --unseen-tags wrong --tokenizer-from "$checkpoint"
  train "$data/$name" "$runs/$name" --finetune-from "$checkpoint" --task.pooling "${POOLING:-mean}" \
    --lr "${LR:-5e-4}" --max-epoch "${EPOCHS:-5}"
  evaluate "$data/$name" "$name"
done
