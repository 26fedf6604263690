#!/usr/bin/env bash
# Runs the test suite, including slow tests, in .venv (created if missing): scripts/test.sh [PYTEST OPTIONS]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install.sh test,plot,hf,gpu-sim
workers="${TOOLKIT_TEST_WORKERS:-$(env -u OMP_NUM_THREADS nproc)}" # nproc would report OMP_NUM_THREADS
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
exec "${TOOLKIT_VENV:-.venv}/bin/python" -m pytest -q -m "not gpu" -n "$workers" "$@"
