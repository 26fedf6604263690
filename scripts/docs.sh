#!/usr/bin/env bash
# Builds the documentation site into site/, warnings as errors: scripts/docs.sh
# Shows it at http://127.0.0.1:8000 and rebuilds it when a file changes: scripts/docs.sh serve
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install.sh docs
export NO_MKDOCS_2_WARNING=1 # a banner of Material about its successor
[ "${1:-build}" = build ] && . scripts/heartbeat.sh "building the site"
"${TOOLKIT_VENV:-.venv}/bin/python" -m mkdocs "${1:-build}" "${@:2}"
