# Functions shared by the scripts of the examples, which source this file.
here="$(cd "$(dirname "$0")" && pwd)"
examples="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

usage() { # MESSAGE: print it and the calling script's head comment, then exit
  echo "$1" >&2
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p;}' "$0" >&2
  exit 2
}

print_tables() { # EXAMPLE RUNS [OPTION...]: the tables of an example's README, from these runs
  local example="$1" runs="$2" && shift 2
  python "$examples/../tools/example_tables.py" "$example" --runs "$runs" "$@"
}

prepare_text() { # DATA TEXT...: lowercased sentences, 8,000 pieces (VOCABULARY), 1 % held out; skipped if DATA exists
  local data="$1" && shift
  [ ! -f "$data/meta.json" ] || return 0
  [ $# -gt 0 ] || usage "$data does not exist: give files or folders of plain text."
  toolkit-preprocess --trainpref "$(IFS=,; echo "$*")" --segment-by sentences --lowercase \
    --vocab-size "${VOCABULARY:-8000}" --valid-fraction 0.01 --destdir "$data"
}

prepare_treebank() { # DATA TREEBANK [OPTION...]: a folder with *-train, *-dev and *-test.conllu; skipped if DATA exists
  local data="$1" treebank="$2" && shift 2
  [ -f "$data/meta.json" ] || toolkit-preprocess --format conllu --trainpref "$(echo "$treebank"/*-train.conllu)" \
    --validpref "$(echo "$treebank"/*-dev.conllu)" --testpref "$(echo "$treebank"/*-test.conllu)" --destdir "$data" "$@"
}

# For fine-tuning on GLUE. GLUE: the benchmark's folder. DATA: folder of the binarized tasks. TOKENIZER: checkpoint or data
# folder whose tokenizer they use. runs: folder of the save directories. recipe: of the package (--list recipes).

find_glue_tasks() { # TASK...: sets the array tasks to those that GLUE contains
  tasks=()
  for task in "$@"; do
    if [ -f "$GLUE/$task/train.tsv" ]; then tasks+=("$task"); else echo "skipping $task: no $GLUE/$task" >&2; fi
  done
  [ ${#tasks[@]} -gt 0 ] || usage "$GLUE contains no folder of a GLUE task with train.tsv ($*)."
}

prepare_glue_task() { # TASK: its data folder, shared by all seeds and settings
  [ -f "$DATA/$1/meta.json" ] || toolkit-preprocess --format glue --glue-task "$1" --on-malformed skip \
    --trainpref "$GLUE/$1" --tokenizer-from "$TOKENIZER" --destdir "$DATA/$1"
}

valid_subsets() { # TASK: its validation splits; the first one selects the checkpoint
  if [ -e "$DATA/$1/valid_mismatched.answers.npy" ]; then echo valid,valid_mismatched; else echo valid; fi
}

sweep_glue_tasks() { # SEEDS OPTION...: fine-tune the checkpoint TOKENIZER on all tasks, with a grid; print medians
  local seeds="$1" && shift
  for task in "${tasks[@]}"; do
    prepare_glue_task "$task"
    toolkit-train "$DATA/$task" --config "recipe:$recipe" --finetune-from "$TOKENIZER" "$@" --seeds "$seeds" \
      --sweep.rank-by median --sweep.jobs "${JOBS:-1}" --checkpoint.no-save --valid-subset "$(valid_subsets "$task")" \
      --save-dir "$runs/$task" ${USER_DIR:+--user-dir "$USER_DIR"} ${EXTRA:-}
  done
  print_glue_table "$runs" --by median -- "${tasks[@]}"
}

print_glue_table() { # RUNS [OPTION of glue_table.py...] -- TASK...
  local runs="$1" options=() found=() && shift
  while [ "$1" != -- ]; do options+=("$1") && shift; done && shift
  for task in "$@"; do found+=("$task=$runs/$task"); done
  python "$examples/glue/glue_table.py" "${options[@]}" "${found[@]}"
}
