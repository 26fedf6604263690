#!/usr/bin/env bash
# From text to a pre-trained, validated TACO that fills in words and orders them: scripts/quickstart.sh [TEXT...]
# Without arguments it learns the English that ships inside every Python; with files, those
# (.txt, .gz, .xz; UTF-8). Everything it writes is in quickstart/, and made anew; what else is there stays.
# UPDATES=3000 trains for longer.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd -P)"
made=(quickstart/{data,run,python.txt,masked.txt,swapped.txt,valid.json,curve.png,kernels.png})
texts=()
for text in "$@"; do
  [ -f "$text" ] || { echo "$text must be a text file, but there is none. Give paths of files." >&2; exit 2; }
  texts+=("$(realpath "$text")")
  for part in "${made[@]}"; do
    [[ "${texts[-1]}/" != "$root/$part"/* ]] ||
      { echo "$text must not be in $part, which is removed first, but is. Move it." >&2; exit 2; }
  done
done
cd "$root"
updates="${UPDATES:-1200}"
say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

say "1/6 Install into ${TOOLKIT_VENV:-.venv} (the first time takes a minute or two)"
scripts/install.sh plot
export PATH="$(cd "${TOOLKIT_VENV:-.venv}/bin" && pwd):$PATH"
rm -rf "${made[@]}" && mkdir -p quickstart

say "2/6 Text to binarized data"
segment_by=sentences
if [ ${#texts[@]} -eq 0 ]; then
  python scripts/python_prose.py quickstart/python.txt
  texts=(quickstart/python.txt) segment_by=lines
fi
toolkit-preprocess --trainpref "$(IFS=,; echo "${texts[*]}")" --segment-by "$units" --valid-share 0.03 \
  --vocab-size "${VOCAB_SIZE:-4000}" --lowercase --destdir quickstart/data

say "3/6 Learn: taco_tiny, masked words and masked positions, $updates updates"
toolkit-train quickstart/data --arch taco_tiny --task mpm --save-dir quickstart/run \
  --max-update "$updates" --lr 2e-3 --warmup-updates 100 --batch-size 64 \
  --task.tokens-per-sample 64 --log-interval 100 --keep-last-epochs 1

say "4/6 Validate the best checkpoint: every held-out example once"
toolkit-validate quickstart/data --path quickstart/run/checkpoint_best \
  --results-path quickstart/valid.json

say "5/6 Fill in hidden words, then put swapped words in order (the truth, then what the model thinks)"
if python scripts/mask_samples.py "${texts[@]}" > quickstart/masked.txt; then
  toolkit-generate --path quickstart/run/checkpoint_best --input quickstart/masked.txt
  python scripts/mask_samples.py --swap "${texts[@]}" > quickstart/swapped.txt
  toolkit-generate --path quickstart/run/checkpoint_best --order --top 2 --input quickstart/swapped.txt
fi

say "6/6 Pictures: the learning curve, and what each head has learned about the words around a word"
toolkit-plot curve quickstart/run --output quickstart/curve.png
if [ -s quickstart/masked.txt ]; then
  toolkit-plot kernels --path quickstart/run --sentences quickstart/masked.txt --output quickstart/kernels.png > /dev/null
  echo quickstart/kernels.png
fi

cat <<END

What to type next (source .venv/bin/activate first):
  echo "This function [MASK] a list." | toolkit-generate --path quickstart/run/checkpoint_best --input -
  toolkit-train quickstart/data --arch bert_tiny --task mlm --save-dir quickstart/bert --max-update $updates
  toolkit-train quickstart/data --arch taco_tiny --task mpm --save-dir quickstart/sweep \\
    --max-update 500 --seeds 0,1 --grid arch.attention_convolution=true,false   # two variants, one table
  toolkit-train --list archs      toolkit-train --help      less docs/tour.md docs/taco.md
END
