#!/usr/bin/env bash
# Tests a cluster with the chart: `helm test`, then examples, each in a namespace of its own, until they have the result
# that their comments describe. The examples whose images have gigabytes are run on request: KIND_EXAMPLES="pytorch ray".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. deploy/kind/common.sh

need kubectl helm
TIMEOUT=${TIMEOUT:-300s}
KIND_EXAMPLES=${KIND_EXAMPLES:-vcjob job jobflow queues deployment statefulset pod podgroup command cronjob hypernodes}

run() { kubectl --namespace "$namespace" "$@"; }
create() { run create --filename "deploy/examples/$1.yaml"; }
wait_for() { run wait --timeout "$TIMEOUT" --for "$@"; }
phase() { wait_for "jsonpath={.status.state.phase}=$2" "job.batch.volcano.sh/$1"; }

# Waits for the result of an example.
result_of() {
  case $1 in
  vcjob) phase gang Completed ;;
  mpi) phase demo-vc-job Completed ;;
  pytorch | tensorflow | mxnet | paddlepaddle | horovod) phase "$1" Completed ;;
  ray) phase ray Running ;;
  queues) phase segmentation Running ;;
  jobflow) wait_for 'jsonpath={.status.state.phase}=Succeed' jobflow/experiment ;;
  job) wait_for condition=complete job.batch/sum ;;
  deployment) run rollout status --timeout "$TIMEOUT" deployment/web ;;
  statefulset) run rollout status --timeout "$TIMEOUT" statefulset/store ;;
  flink)
    run rollout status --timeout "$TIMEOUT" deployment/flink-jobmanager
    run rollout status --timeout "$TIMEOUT" deployment/flink-taskmanager
    ;;
  spark) wait_for 'jsonpath={.status.phase}=Succeeded' pod/spark-pi-driver ;;
  pod) wait_for condition=Ready pod/shell ;;
  podgroup) wait_for condition=Ready pod/pair-0 pod/pair-1 ;;
  command)
    create vcjob
    phase gang Running
    create command
    phase gang Aborted
    ;;
  cronjob) run get cronjob.batch.volcano.sh/nightly ;;
  hypernodes) run get hypernode/rack-a hypernode/rack-b hypernode/spine ;;
  *) fail "this script knows no result of the example $1" ;;
  esac
}

# Deletes the namespace of an example, and what it has created outside. A parent queue is deleted after its children.
clean() {
  kubectl delete namespace "$namespace" --ignore-not-found "--wait=$2"
  case $1 in
  queues)
    kubectl delete queue research-vision research-language --ignore-not-found
    kubectl delete queue research --ignore-not-found
    ;;
  hypernodes) kubectl delete hypernode rack-a rack-b spine --ignore-not-found ;;
  esac
}

helm test "$RELEASE" --namespace "$NAMESPACE" --timeout "$TIMEOUT"

failed=()
for example in $KIND_EXAMPLES; do
  namespace="example-$example"
  echo "== $example"
  clean "$example" true
  kubectl create namespace "$namespace"
  if ! { { [ "$example" = command ] || create "$example"; } && result_of "$example"; }; then
    failed+=("$example")
    run get jobs.batch.volcano.sh,podgroups,pods,events || true
  fi
  clean "$example" false
done
[ ${#failed[@]} -eq 0 ] || fail "without the described result: ${failed[*]}"
echo "helm test and ${KIND_EXAMPLES// /, } have their described results"
