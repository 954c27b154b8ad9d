# shellcheck shell=bash
# What the scripts in this folder share. They set `-euo pipefail` and change to the root of the repository before they
# read this file.

export CLUSTER=volcano-py
export RELEASE=volcano-py
export NAMESPACE=volcano-system
# Podman adds the prefix localhost/ to names without a registry, so the image has the prefix with every engine.
export IMAGE=localhost/volcano-py:kind
# A file of its own, so that the current context of other kubectl commands stays as it is.
export KUBECONFIG="${KIND_KUBECONFIG:-$PWD/build/kind/kubeconfig}"

fail() {
  echo "error: $*" >&2
  exit 1
}

# Sets KIND_EXPERIMENTAL_PROVIDER to the first container engine that answers, unless it is set.
choose_engine() {
  local engine
  for engine in ${KIND_EXPERIMENTAL_PROVIDER:-docker podman nerdctl}; do
    if command -v "$engine" >/dev/null && timeout 20 "$engine" info >/dev/null 2>&1; then
      export KIND_EXPERIMENTAL_PROVIDER="$engine"
      return
    fi
  done
  fail "no container engine answers; kind needs Docker, Podman or nerdctl"
}

# Checks that programs are on the PATH.
need() {
  local program
  for program in "$@"; do
    command -v "$program" >/dev/null || fail "$program is not on the PATH: install it, or run 'make controlplane'"
  done
}
