#!/usr/bin/env bash
# Preprocesses a corpus on several machines, as a Slurm array:
#   CORPUS=/corpus/text DESTDIR=/corpus/data bash examples/preprocessing/slurm.sh
# submits the array, and after it a job that closes the folder. All machines must see both paths.
# After a failure, submit again: finished parts are kept.
#SBATCH --job-name=preprocess
#SBATCH --array=1-8
#SBATCH --cpus-per-task=16
#SBATCH --time=04:00:00
#SBATCH --output=preprocess-%a.txt
set -euo pipefail
processes=8  # as in --array
corpus="${CORPUS:?the folder of text files}" destdir="${DESTDIR:?the data folder to write}"

if [ -z "${SLURM_ARRAY_TASK_ID:-}" ]; then
  array="$(sbatch --parsable --export=ALL "$0")"
  sbatch --dependency="afterok:$array" --kill-on-invalid-dep=yes --output=preprocess-close.txt \
    --wrap "toolkit-preprocess --destdir '$destdir' --close"
  exit
fi

# Add --tokenizer-from, or other options; they must be the same in all tasks.
exec toolkit-preprocess --trainpref "$corpus" --segment-by sentences --vocab-size 30000 \
  --destdir "$destdir" --part "$SLURM_ARRAY_TASK_ID/$processes"
