#!/usr/bin/env bash
# Kinds of convolution and lengths of kernels, learnt from novels: examples/convbert/novels.sh TEXT...
# TEXT: files or folders of plain text (.txt, .gz, .xz). 20 runs, JOBS (2) at a time, of about 5
# minutes each on two cores; stop it whenever you like, it goes on where it was. Results are in RUNS
# (convbert-runs). Kernels of 9 tokens are the runs conv_type=span.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
runs="${RUNS:-convbert-runs}"
data="${DATA:-novels-data}"
[ $# -gt 0 ] || { echo "usage: $0 TEXT...   (files or folders of plain text)" >&2; exit 2; }

[ -f "$data/meta.json" ] || toolkit-preprocess --trainpref "$(IFS=,; echo "$*")" \
  --units sentences --lowercase --vocab-size 8000 --valid-share 0.01 --destdir "$data"
learn() {
  toolkit-train "$data" --user-dir "$here" --arch convbert_192 --task rtd --task.samples blocks \
    --sweep.jobs "${JOBS:-2}" --batch-size 32 --max-update 1200 --lr 2e-3 --warmup-updates 120 \
    --log-interval 50 --validate-interval-updates 200 --keep-last-epochs 1 "$@"
}
learn --grid arch.conv_type=none,conventional,dynamic,span --seeds 0,1,2 --save-dir "$runs/types"
learn --grid arch.kernel_size=1,3,5,17 --seeds 0,1 --save-dir "$runs/kernels"

kernels=("$runs/kernels" "$runs"/types/*conv_type=span,seed=[01])
figures=mlm_loss,generator_accuracy,rtd_loss,discriminator_accuracy,auc
toolkit-plot curve "$runs/types" --metric "$figures" --output "$runs/types.png"
toolkit-plot curve "${kernels[@]}" --metric "$figures" --output "$runs/kernels.png"
last="$here/../../scripts/last_figures.py"
python "$last" "$figures" "$runs/types" | tee "$runs/types.md"
python "$last" "$figures" "${kernels[@]}" | tee "$runs/kernels.md"
