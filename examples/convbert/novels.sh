#!/usr/bin/env bash
# Kinds of convolution and kernel sizes, pre-trained on novels: examples/convbert/novels.sh TEXT...
# TEXT: files or folders of plain text (.txt, .gz, .xz). 20 runs, JOBS (2) at a time, of about 5 minutes each on two
# cores. Save directories are in RUNS (convbert-runs), data in DATA (novels-data). Kernel size 9 is the run
# arch.conv_type=span. Restart it to resume.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
runs="${RUNS:-convbert-runs}" data="${DATA:-novels-data}"
[ $# -gt 0 ] || usage "no text given."

prepare_text "$data" "$@"
learn() {
  toolkit-train "$data" --user-dir "$here" --arch convbert_192 --task rtd --task.sample-mode blocks \
    --sweep.jobs "${JOBS:-2}" --batch-size 32 --max-update 1200 --lr 2e-3 --warmup-updates 120 \
    --log-interval 50 --validate-interval-updates 200 --keep-last-epochs 1 "$@"
}
learn --grid arch.conv_type=none,conventional,dynamic,span --seeds 0,1,2 --save-dir "$runs/types"
learn --grid arch.kernel_size=1,3,5,17 --seeds 0,1 --save-dir "$runs/kernels"

metrics=mlm_loss,generator_accuracy,rtd_loss,discriminator_accuracy,auc
toolkit-plot curve "$runs/types" --metric "$metrics" --output "$runs/types.png"
toolkit-plot curve "$runs/kernels" "$runs"/types/*conv_type=span,seed=[01] --metric "$metrics" --output "$runs/kernels.png"
print_tables convbert "$runs" | tee "$runs/tables.md"
