"""Makes `deploy/volcano-py.yaml`, for installations without Helm, from the chart.

The file contains the output of Helm with the default values of the chart, and the namespace, without the labels that
mark objects of Helm. Resource definitions are in `deploy/crds` instead. ``make manifests`` runs this module; a test
checks that the committed file equals its output.
"""

import subprocess
import sys
from pathlib import Path

from controlplane import build

ROOT = build.HERE.parent
CHART = ROOT / "charts" / "volcano-py"
TARGET = ROOT / "deploy" / "volcano-py.yaml"
RELEASE, NAMESPACE = "volcano-py", "volcano-system"

_HEADER = f"""\
# Made by `make manifests` from {CHART.relative_to(ROOT)}. Change the chart, not this file.
#
#   kubectl apply --server-side -f deploy/crds/ -f deploy/volcano-py.yaml
---
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels:
    pod-security.kubernetes.io/enforce: restricted
"""
_HELMS = ("app.kubernetes.io/managed-by: ", "helm.sh/chart: ")


def template(helm: Path, *options: str) -> str:
    """The output of Helm for the chart, without the objects of `helm test`; raises CalledProcessError."""
    # A release of Helm contains a version of Kubernetes; a Helm that was compiled from source contains none.
    command = [str(helm), "template", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--skip-tests", *options]
    command.append(f"--kube-version={build.kubernetes_version()}")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def manifests(helm: Path) -> str:
    """The text of the file."""
    lines = template(helm).splitlines(keepends=True)
    return _HEADER + "".join(line for line in lines if not line.strip().startswith(_HELMS))


def main() -> int:
    """The entry point of the command line: writes the file. Returns 1 on failure."""
    try:
        TARGET.write_text(manifests(build.ensure() / "helm"), encoding="utf-8")
    except build.BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(error.stderr, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
