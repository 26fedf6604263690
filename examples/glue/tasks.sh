# What the scripts that fine-tune on GLUE share; they source it. GLUE: the benchmark's folder; DATA: where its
# binarized tasks go; CODEC: a checkpoint or data folder whose vocabulary they take.

usage() { # what is wrong; then the script's own first lines
  echo "$1" >&2
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p;}' "$0" >&2
  exit 2
}

known() { # of these tasks, those that GLUE holds, as the array tasks
  tasks=()
  for task in "$@"; do
    if [ -f "$GLUE/$task/train.tsv" ]; then tasks+=("$task"); else echo "no $GLUE/$task: left out" >&2; fi
  done
  [ ${#tasks[@]} -gt 0 ] || usage "$GLUE must hold folders of GLUE's tasks with train.tsv, but holds none of $*"
}

prepare() { # task: its data folder, once for all seeds and options
  [ -f "$DATA/$1/meta.json" ] || toolkit-preprocess --format glue --glue-task "$1" --malformed skip \
    --trainpref "$GLUE/$1" --codec-from "$CODEC" --destdir "$DATA/$1"
}

splits() { # task: those to validate on; the first decides
  if [ -e "$DATA/$1/valid_mismatched.answers.bin" ]; then echo valid,valid_mismatched; else echo valid; fi
}

overview() { # folder of the runs, options of scripts/glue_table.py, then --, then tasks
  local runs="$1" options=() found=() && shift
  while [ "$1" != -- ]; do options+=("$1") && shift; done && shift
  for task in "$@"; do found+=("$task=$runs/$task"); done
  python "$(dirname "${BASH_SOURCE[0]}")/../../scripts/glue_table.py" "${options[@]}" "${found[@]}"
}
