#!/usr/bin/env bash
# Deletes the cluster of up.sh, and its kubeconfig.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. deploy/kind/common.sh

choose_engine
need kind
kind delete cluster --name "$CLUSTER" --kubeconfig "$KUBECONFIG"
rm -f "$KUBECONFIG"
