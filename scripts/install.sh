#!/usr/bin/env bash
# Creates .venv in the project folder and installs the toolkit into it: scripts/install.sh [EXTRA,EXTRA...]
# torch is installed first, so that no other requirement selects a different build of it.
set -euo pipefail
cd "$(dirname "$0")/.."
extras="${1:-}"
venv="${TOOLKIT_VENV:-.venv}"
python="${PYTHON:-python3}"

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
  echo "The toolkit needs Python 3.10 or newer, but $python is $("$python" --version). Set PYTHON=/path/to/python3." >&2
  exit 2
}
. scripts/heartbeat.sh "installing into $venv"
pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check)
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
"$venv/bin/python" -c 'import torch' 2>/dev/null || "${pip[@]}" "${TOOLKIT_TORCH:-torch==2.13.0}"
"${pip[@]}" -e ".${extras:+[$extras]}"
