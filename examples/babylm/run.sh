#!/usr/bin/env bash
# An entry for BabyLM, from text to the table and the export: examples/babylm/run.sh TEXT...
# TEXT: files or folders of plain text, 10 million words in all. EVAL: the download evaluation_data of the challenge of 2025,
# with fast_eval and full_eval. RECIPE (babylm-strict-small): a recipe of the package. Everything is written to ENTRY
# (babylm-entry). SCORING: the score of an option, log_likelihood for a hybrid model that is read from left to right. For a
# first cut, EXTRA: more options of toolkit-train, such as "--max-words 1M --save-at-words 100K,1M"; LIMIT: items of each
# paradigm to score (all). If the download has full_eval/glue_filtered, the last checkpoint is fine-tuned on its tasks, with the
# seeds SEEDS, such as "42 43" (those of the suite); SEEDS=none leaves it out. If it has full_eval/cdi_childes/cdi_childes.json,
# the surprisals of its words are measured, for ages of acquisition. Restart it to resume.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
entry="${ENTRY:-babylm-entry}" recipe="${RECIPE:-babylm-strict-small}" data="${DATA:-${ENTRY:-babylm-entry}/data}"
score=(--precision fp32 ${LIMIT:+--limit "$LIMIT"} ${SCORING:+--scoring "$SCORING"})
[ -d "${EVAL:-}/full_eval" ] || usage "EVAL=${EVAL:-} must name the folder evaluation_data of the challenge."
mkdir -p "$entry"

if [ ! -f "$data/meta.json" ]; then
  [ $# -gt 0 ] || usage "$data does not exist: give files or folders of plain text."
  toolkit-preprocess --trainpref "$(IFS=,; echo "$*")" --segment-by sentences --tokenizer bpe \
    --vocab-size "${VOCABULARY:-16384}" --valid-fraction 0.005 --destdir "$data"
fi
toolkit-train "$data" --config "recipe:$recipe" --save-dir "$entry/run" ${EXTRA:-}
toolkit-validate "$EVAL/full_eval" --suite babylm-2025-full --path "$entry/run/checkpoint_last" \
  --predictions "$entry/predictions" --results-path "$entry/full.jsonl" "${score[@]}"
toolkit-validate "$EVAL/fast_eval" --suite babylm-2025-fast --path "$entry/run" --all-checkpoints \
  --results-path "$entry/fast.jsonl" "${score[@]}"
glue="$EVAL/full_eval/glue_filtered"
[ -d "$glue" ] && [ "${SEEDS:-}" != none ] || glue=""
if [ -n "$glue" ]; then
  toolkit-train "$glue" --suite babylm-2025-glue --finetune-from "$entry/run/checkpoint_last" \
    --save-dir "$entry/glue" ${SEEDS:+--seeds "${SEEDS// /,}"}
fi
words="$EVAL/full_eval/cdi_childes/cdi_childes.json" ages="$entry/ages.jsonl"
[ -f "$words" ] || ages=""
if [ -n "$ages" ]; then  # a first cut may have too few checkpoints
  toolkit-validate "$words" --task age_of_acquisition --path "$entry/run" --results-path "$ages" \
    ${SCORING:+--scoring "$SCORING"} || ages=""
fi
toolkit-convert babylm "$entry/run/checkpoint_last" "$entry/export" --predictions "$entry/predictions" \
  --results "$entry/full.jsonl" "$entry/fast.jsonl" ${ages:+"$ages"} ${glue:+--fine-tuned "$entry/glue"}
