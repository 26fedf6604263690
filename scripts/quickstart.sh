#!/usr/bin/env bash
# Pre-trains, evaluates and tries out a small TACO: scripts/quickstart.sh [TEXT...]
# Trains on the given files (.txt, .gz, .xz; UTF-8), or on the English text that ships with Python.
# Its outputs are in quickstart/ and are replaced each time; other files there are kept.
# UPDATES=3000 trains longer.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd -P)"
outputs=(quickstart/{data,run,python.txt,masked.txt,swapped.txt,valid.json,curve.png,kernels.png})
texts=()
for text in "$@"; do
  [ -f "$text" ] || { echo "No such file: $text. Pass the paths of text files." >&2; exit 2; }
  texts+=("$(realpath "$text")")
  for output in "${outputs[@]}"; do
    [[ "${texts[-1]}/" != "$root/$output"/* ]] ||
      { echo "$text is in $output, which this script replaces. Move it elsewhere." >&2; exit 2; }
  done
done
cd "$root"
updates="${UPDATES:-1200}"
say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

say "1/6 Install into ${TOOLKIT_VENV:-.venv} (the first time takes a minute or two)"
scripts/install.sh plot
export PATH="$(cd "${TOOLKIT_VENV:-.venv}/bin" && pwd):$PATH"
rm -rf "${outputs[@]}" && mkdir -p quickstart

say "2/6 Preprocess: text to a data folder"
segment_by=sentences
if [ ${#texts[@]} -eq 0 ]; then
  python scripts/python_prose.py quickstart/python.txt
  texts=(quickstart/python.txt) segment_by=lines
fi
toolkit-preprocess --trainpref "$(IFS=,; echo "${texts[*]}")" --segment-by "$segment_by" --valid-fraction 0.03 \
  --vocab-size "${VOCAB_SIZE:-4000}" --lowercase --destdir quickstart/data

say "3/6 Pre-train: taco_tiny, masked tokens and masked positions, $updates updates"
toolkit-train quickstart/data --arch taco_tiny --task mpm --save-dir quickstart/run \
  --max-update "$updates" --lr 2e-3 --warmup-updates 100 --batch-size 64 \
  --task.sample-mode blocks --task.tokens-per-sample 64 --log-interval 100 --keep-last-epochs 1

say "4/6 Evaluate the best checkpoint on held-out text"
toolkit-validate quickstart/data --path quickstart/run/checkpoint_best \
  --results-path quickstart/valid.json

say "5/6 Fill masked words and reorder swapped words (first the original, then the predictions)"
if python scripts/mask_samples.py "${texts[@]}" > quickstart/masked.txt; then
  toolkit-generate --path quickstart/run/checkpoint_best --input quickstart/masked.txt
  python scripts/mask_samples.py --swap "${texts[@]}" > quickstart/swapped.txt
  toolkit-generate order --path quickstart/run/checkpoint_best --top 2 --input quickstart/swapped.txt
fi

say "6/6 Plot the learning curve and the learned attention kernels"
toolkit-plot curve quickstart/run --output quickstart/curve.png
if [ -s quickstart/masked.txt ]; then
  toolkit-plot kernels --path quickstart/run --sentences quickstart/masked.txt --output quickstart/kernels.png > /dev/null
  echo quickstart/kernels.png
fi

cat <<END

Next (after source .venv/bin/activate):
  echo "They opened the [MASK] and read it." | toolkit-generate --path quickstart/run/checkpoint_best --input -
  toolkit-train quickstart/data --arch bert_tiny --task mlm --save-dir quickstart/bert --max-update $updates
  toolkit-train quickstart/data --arch taco_tiny --task mpm --save-dir quickstart/sweep \\
    --max-update 500 --seeds 0,1 --grid arch.attention_convolution=true,false   # two variants, one table
  toolkit-train --list archs      toolkit-train --help      less docs/concepts/tour.md
END
