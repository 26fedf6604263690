#!/usr/bin/env bash
# Runs the test suite, slow tests included, in .venv (made if need be): scripts/test.sh [PYTEST OPTIONS]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install.sh test,plot,hf
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
workers="${TOOLKIT_TEST_WORKERS:-$(nproc)}"
exec "${TOOLKIT_VENV:-.venv}/bin/python" -m pytest -q -m "not gpu" -n "$workers" "$@"
