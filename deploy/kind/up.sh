#!/usr/bin/env bash
# Creates a cluster of kind, builds the image, loads it into the nodes, and installs the chart. If the cluster exists, the
# image and the release are replaced. NODE_IMAGE is an image of kind's nodes, such as kindest/node:v1.36.1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. deploy/kind/common.sh

choose_engine
need kind kubectl helm
folder=$(dirname "$KUBECONFIG")
mkdir -p "$folder"

if kind get clusters --quiet | grep -qx "$CLUSTER"; then
  kind export kubeconfig --name "$CLUSTER" --kubeconfig "$KUBECONFIG"
else
  kind create cluster --name "$CLUSTER" --config deploy/kind/cluster.yaml ${NODE_IMAGE:+--image "$NODE_IMAGE"} \
    --kubeconfig "$KUBECONFIG" --wait 180s
fi

"$KIND_EXPERIMENTAL_PROVIDER" build --tag "$IMAGE" .
# An archive works with every engine; `kind load docker-image` works with Docker only.
"$KIND_EXPERIMENTAL_PROVIDER" save --output "$folder/image.tar" "$IMAGE"
kind load image-archive "$folder/image.tar" --name "$CLUSTER"
rm -f "$folder/image.tar"

kubectl apply --server-side --force-conflicts --filename deploy/crds/
helm upgrade --install "$RELEASE" charts/volcano-py --namespace "$NAMESPACE" --create-namespace --skip-crds \
  --set "image.repository=${IMAGE%:*},image.tag=${IMAGE##*:},image.pullPolicy=Never" --wait --timeout 5m
# A new image has the name of the old one, so Deployments do not notice it.
kubectl --namespace "$NAMESPACE" rollout restart deployment
kubectl --namespace "$NAMESPACE" rollout status deployment --timeout 5m

echo "volcano-py runs in the cluster $CLUSTER: export KUBECONFIG=$KUBECONFIG"
