#!/usr/bin/env bash
# Runs the test suite, slow tests included, in .venv (made if need be): scripts/test.sh [PYTEST OPTIONS]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install.sh test,plot,hf
workers="${TOOLKIT_TEST_WORKERS:-$(env -u OMP_NUM_THREADS nproc)}" # nproc counts that one's threads
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
exec "${TOOLKIT_VENV:-.venv}/bin/python" -m pytest -q -m "not gpu" -n "$workers" "$@"
