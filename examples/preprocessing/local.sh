#!/usr/bin/env bash
# Preprocesses a corpus with several processes of this machine: local.sh PROCESSES DESTDIR OPTION...
#   examples/preprocessing/local.sh 4 data --trainpref novels/ --segment-by sentences
# After a failure, run the same command again: finished parts are kept.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
processes="$1" destdir="$2"
shift 2
started=()
for number in $(seq "$processes"); do
  toolkit-preprocess "$@" --destdir "$destdir" --part "$number/$processes" --workers 1 &
  started+=($!)
done
failed=0
for process in "${started[@]}"; do
  wait "$process" || failed=$((failed + 1))
done
if [ "$failed" -gt 0 ]; then
  echo "$failed of $processes processes failed. Run the same command again: finished parts are kept." >&2
  exit 1
fi
toolkit-preprocess --destdir "$destdir" --close
