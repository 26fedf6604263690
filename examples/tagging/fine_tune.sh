#!/usr/bin/env bash
# Pre-trained encoders against conv_san on one treebank: examples/tagging/fine_tune.sh TREEBANK SAVE_FOLDER...
# TREEBANK: a folder with *-train, *-dev and *-test.conllu. SAVE_FOLDER: of runs of toolkit-train (mlm, mpm,
# rtd), each of which is fine-tuned with three seeds, in a folder of its name. Stop it whenever you like: it
# goes on where it was. Runs are in RUNS (tagging-runs), data in DATA (tagging-data); JOBS runs at a time (2),
# one thread each.
# USER_DIR: folder of a plugin that the checkpoints' architectures are in.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
[ $# -gt 1 ] || { echo "usage: $0 TREEBANK SAVE_FOLDER...   (see its first lines)" >&2; exit 2; }
treebank="$1" && shift
runs="${RUNS:-tagging-runs}" data="${DATA:-tagging-data}" seeds="${SEEDS:-0,1,2}"
for saved in "$@"; do
  [ -d "$saved/checkpoint_best" ] ||
    { echo "$saved must be a save folder with a checkpoint_best, but is none." >&2 && exit 2; }
done
twice="$(for saved in conv_san words "$@"; do basename "$saved"; done | sort | uniq -d)"
[ -z "$twice" ] ||
  { echo "save folders must have names of their own, but $twice is taken. Link one to another name." >&2 && exit 2; }
plugin=() && [ -z "${USER_DIR:-}" ] || plugin=(--user-dir "$USER_DIR")
export OMP_NUM_THREADS=1

prepare() { # folder, further options
  local folder="$1" && shift
  [ -f "$folder/meta.json" ] || toolkit-preprocess --format conllu \
    --trainpref "$(echo "$treebank"/*-train.conllu)" --validpref "$(echo "$treebank"/*-dev.conllu)" \
    --testpref "$(echo "$treebank"/*-test.conllu)" --unseen-tags wrong --destdir "$folder" "$@"
}

train() { # data, save folder, further options
  local folder="$1" save="$2" && shift 2
  toolkit-train "$folder" --config "$here/recipe.yaml" --seeds "$seeds" --sweep.jobs "${JOBS:-2}" \
    --save-dir "$save" "${plugin[@]}" "$@"
}

prepare "$data/words"
train "$data/words" "$runs/conv_san" --arch "${ARCH:-conv_san_ud_conv2d}" --optimizer rmsprop --lr 1e-3 \
  --lr-scheduler fixed --max-epoch "${CONV_SAN_EPOCHS:-100}" --clip-norm 0
toolkit-validate "$data/words" "${plugin[@]}" --path "$runs"/conv_san/seed=* --valid-subset test \
  --results-path "$runs/conv_san.json"
for saved in "$@"; do
  name="$(basename "$saved")" checkpoint="$saved/checkpoint_best"
  prepare "$data/$name" --codec-from "$checkpoint"
  train "$data/$name" "$runs/$name" --finetune-from "$checkpoint" --task.pooling "${POOLING:-mean}" \
    --lr "${LR:-5e-4}" --max-epoch "${EPOCHS:-5}"
  toolkit-validate "$data/$name" "${plugin[@]}" --path "$runs/$name"/seed=* --valid-subset test \
    --results-path "$runs/$name.json"
done
