"""Runs a control plane with real nodes and the chart on this machine::

    python -m controlplane.node.run              # and a shell, in which kubectl reaches the cluster
    python -m controlplane.node.run COMMAND...   # only the namespaces for a cluster: the command starts its own

Programs and images are built first, if they are not in the cache. If this machine cannot run real nodes, one line says
what is missing; a command is left out then, with exit status 0.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from controlplane.build import BuildError
from controlplane.node import images, namespaces
from controlplane.node.cluster import Cluster
from controlplane.node.preflight import obstacle
from controlplane.process import StartError


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point of the command line. Returns the exit status of the command or shell, or 1 if the cluster cannot
    be started."""
    parser = argparse.ArgumentParser(
        prog="python -m controlplane.node.run",
        description="Run a Kubernetes cluster with real nodes on this machine until its shell ends.",
    )
    parser.add_argument("--nodes", type=int, default=3, help="the number of nodes (3)")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="keep the log file of each process in DIR")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="run this command instead of a cluster and its shell")
    options = parser.parse_args(arguments)
    if namespaces.inside():
        return _shell(options.nodes, options.logs)
    reason = obstacle()
    if reason is not None:
        print(f"left out: {reason}" if options.command else f"error: {reason}", file=sys.stderr)
        return 0 if options.command else 1
    if images.main() != 0:
        return 1
    inner = options.command or [sys.executable, "-m", "controlplane.node.run", *(arguments or sys.argv[1:])]
    return namespaces.run(inner)


def _shell(nodes: int, logs: Path | None) -> int:
    try:
        with Cluster(nodes, logs) as cluster, tempfile.NamedTemporaryFile("w", suffix=".sh") as profile:
            cluster.install()
            print(cluster.plane.kubectl("get", "nodes,pods", "--all-namespaces", "--output=wide"))
            print("kubectl and helm reach this cluster in this shell; the cluster ends with it.")
            path = f"{cluster.plane.binaries}:{os.environ['PATH']}"
            environment = {**os.environ, "KUBECONFIG": str(cluster.plane.kubeconfig), "PATH": path}
            profile.write("PS1='(node) \\w \\$ '\n")
            profile.flush()
            return subprocess.run(["bash", "--rcfile", profile.name], env=environment, check=False).returncode
    except (BuildError, StartError, AssertionError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
