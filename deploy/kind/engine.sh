#!/usr/bin/env bash
# Prints the container engine that kind uses, or says in one line that none answers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. deploy/kind/common.sh

choose_engine
echo "$KIND_EXPERIMENTAL_PROVIDER"
