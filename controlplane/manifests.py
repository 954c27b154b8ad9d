"""Make `deploy/volcano-py.yaml`, for those who install without Helm, from the chart.

It is what Helm renders with the chart's own values, in a namespace that comes with it, and without the labels that say
that Helm looks after it. Resource definitions are not in it: they are in `deploy/crds`. Run it with ``make manifests``;
a test holds that the committed file is what it makes.
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
    """What Helm renders of the chart; raises CalledProcessError."""
    # The version of a release of Helm follows that of Kubernetes; a Helm that was just compiled knows none.
    command = [str(helm), "template", RELEASE, str(CHART), f"--namespace={NAMESPACE}", *options]
    command.append(f"--kube-version={build.kubernetes_version()}")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def manifests(helm: Path) -> str:
    """The text of the file."""
    lines = template(helm).splitlines(keepends=True)
    return _HEADER + "".join(line for line in lines if not line.strip().startswith(_HELMS))


def main() -> int:
    """Command line entry: write the file; 1 if it cannot be made."""
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
