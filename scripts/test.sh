#!/usr/bin/env bash
# Runs the quick tests in .venv (created if missing): scripts/test.sh [--all] [PYTEST OPTIONS]
# With --all, the slow ones too.
set -euo pipefail
cd "$(dirname "$0")/.."
marks="not slow and not gpu"
if [ "${1:-}" = --all ]; then marks="not gpu" && shift; fi
scripts/install.sh test,plot,hf,gpu-sim
workers="${TOOLKIT_TEST_WORKERS:-$(env -u OMP_NUM_THREADS nproc)}" # nproc would report OMP_NUM_THREADS
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
unset PYTHONDONTWRITEBYTECODE # or every process that a test starts compiles the package again
exec "${TOOLKIT_VENV:-.venv}/bin/python" -m pytest -q -m "$marks" -n "$workers" --dist worksteal "$@"
