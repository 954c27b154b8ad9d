"""Draws the dashboards of the chart as `docs/images/dashboard-*.svg`, with data of a control plane on this machine.

``make dashboard-images`` runs it for two minutes.
"""

import math
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from controlplane.build import BuildError
from controlplane.manifests import ROOT
from scheduler.api.kinds import QUEUE
from tests.integration.dashboard_svg import Series, draw
from tests.integration.prometheus import Prometheus
from tests.integration.scraped import DASHBOARDS, GPU, JOBS, create_jobs, job, queue, scraped_installation, with_values

TARGET = ROOT / "docs" / "images"
ROUNDS, PAUSE = 12, 8.0
"""The number of times that jobs are created, and the seconds after each time."""


def series(prometheus: Prometheus, query: str, start: float, end: float) -> Sequence[Series]:
    """The series of a query that still have a value, the greatest one first if the query sorts them."""
    step = str(max(1, int((end - start) / 120)))
    answer = prometheus.get("query_range", query=with_values(query), start=str(start), end=str(end), step=step)
    found = []
    for each in answer["result"]:
        points = [(float(moment), float(text)) for moment, text in each["values"] if math.isfinite(float(text))]
        if points and points[-1][0] > end - 10:
            found.append(Series({key: text for key, text in each["metric"].items() if key != "__name__"}, points))
    return sorted(found, key=lambda one: -one.last) if query.startswith("sort_desc") else found


def main() -> int:
    """The entry point of the command line; returns 1 if there is no control plane."""
    TARGET.mkdir(exist_ok=True)
    try:
        with (
            tempfile.TemporaryDirectory() as directory,
            scraped_installation(Path(directory)) as (installed, prometheus, start),
        ):
            serving = queue("serving", {"weight": 1, "capability": {"cpu": "24", GPU: "4"}}, 2)
            installed.api.create(QUEUE.path, serving)
            for i in range(ROUNDS):
                time.sleep(PAUSE)
                create_jobs(installed, f"-{i}")
                served = job(f"served-{i}", 1, 1, {"cpu": "3", "memory": "4Gi", GPU: "1"})
                served["spec"]["queue"] = "serving"
                installed.api.create(JOBS, served)
            time.sleep(PAUSE)
            end = time.time()
            for name, dashboard in sorted(DASHBOARDS.items()):
                file = TARGET / f"dashboard-{name}.svg"
                file.write_text(
                    draw(dashboard, lambda query: series(prometheus, query, start, end), start, end), encoding="utf-8"
                )
                print(file.relative_to(ROOT))
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
