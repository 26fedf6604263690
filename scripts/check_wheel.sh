#!/usr/bin/env bash
# Installs a wheel into a new environment and uses every command on a small text, in an empty folder:
# scripts/check_wheel.sh [WHEEL], by default one that is built here.
# PYTHON is the Python to use, TOOLKIT_TORCH the torch to install (torch==2.13.0).
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd -P)"
python="${PYTHON:-python3}" folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

say "Install"
wheel="${1:+$(realpath "$1")}"
"$python" -m venv "$folder/venv"
pip=("$folder/venv/bin/python" -m pip --quiet --disable-pip-version-check)
[ -n "$wheel" ] || { "${pip[@]}" wheel --no-deps --wheel-dir "$folder" "$root"; wheel=$(echo "$folder"/*.whl); }
"${pip[@]}" install "${TOOLKIT_TORCH:-torch==2.13.0}"
"${pip[@]}" install "$wheel"
"${pip[@]}" check
unset PYTHONPATH
export PATH="$folder/venv/bin:$PATH" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
mkdir "$folder/empty" && cd "$folder/empty"
python -c "import toolkit; print(toolkit.__version__, toolkit.__file__)"

say "Help, version and lists"
toolkit --help > help.txt
for command in preprocess train validate predict generate average inspect plot convert; do
  "toolkit-$command" --version
  "toolkit-$command" --help > help.txt
  toolkit "$command" --help | cmp - help.txt
done
toolkit-preprocess --list formats > list.txt
for kind in archs tasks criteria optimizers lr-schedulers recipes; do
  toolkit-train --list "$kind" > list.txt
  echo "$(grep -c '^[^ ]' list.txt) $kind"
done

say "Pre-train, evaluate, generate, average, inspect"
for i in $(seq 200); do echo "The house number $i by the river has $((i % 7)) rooms, $((i % 5)) windows and a door."; done > text.txt
small=(--log-interval 5 --num-workers 0)
toolkit-preprocess --trainpref text.txt --valid-fraction 0.1 --vocab-size 200 --destdir data
toolkit-train data --arch taco_tiny --task mpm --max-update 10 --save-interval-updates 5 --save-dir run "${small[@]}"
toolkit-validate data --path run/checkpoint_best
echo "The house by the [MASK] has rooms." | toolkit-generate --path run --input -
toolkit-average run --last 2 --output averaged
toolkit-inspect data averaged --verify

say "Recipes"
for recipe in $(grep -o '^[^ ]*' list.txt); do
  recipes=(--config "recipe:$recipe")
  [[ "$recipe" != *-512 ]] || recipes=(--config "recipe:${recipe%-512}" "${recipes[@]}") # its second phase
  toolkit-train data "${recipes[@]}" --print-config > config.yaml 2> error.txt ||
    { grep -q -- "--arch is required" error.txt && toolkit-train data "${recipes[@]}" --arch bert_tiny --print-config > config.yaml; }
  echo "$recipe: $(wc -l < config.yaml) lines"
done
toolkit-train data --config recipe:chang2021-small --arch composite_bert_tiny --max-update 3 --save-dir recipe "${small[@]}"

say "Fine-tune and predict"
for i in $(seq 20); do printf 'a lovely film\tgood\na dull film\tbad\n'; done | sed '1i text\tmood' > films.tsv
toolkit-preprocess --format tsv --text-columns text --label-column mood --tokenizer words \
  --trainpref films.tsv --validpref films.tsv --destdir films
toolkit-train films --config recipe:chang2021-glue --arch bert_tiny --save-dir moods "${small[@]}"
echo "a lovely film" | toolkit-predict --path moods

say "Plot and convert, which need extras"
"${pip[@]}" install "$wheel[plot,hf]"
toolkit-plot curve run --output curve.png
toolkit-convert export averaged exported
toolkit-convert export moods/checkpoint_best bert --classes native
toolkit-convert import bert restored
ls -s curve.png exported/model.safetensors restored/model.safetensors

say "Every command of $(basename "$wheel") works"
