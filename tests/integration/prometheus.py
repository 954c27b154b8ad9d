"""A Prometheus that scrapes local ports, and its queries."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from controlplane.process import Process, free_ports


class Prometheus:
    """A running Prometheus, which keeps its data in a directory. A context manager."""

    def __init__(
        self,
        binary: Path,
        directory: Path,
        targets: Mapping[str, int],
        *,
        interval: str = "1s",
        more: Iterable[Mapping[str, Any]] = (),
        rules: Iterable[Path] = (),
    ) -> None:
        """``targets``: maps the name of a job to a port of 127.0.0.1; ``more``: other scrape configurations; ``rules``:
        files of rules."""
        configuration = directory / "prometheus.yml"
        scraped = [
            {"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]} for job, port in targets.items()
        ]
        content = {
            "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
            "scrape_configs": [*scraped, *more],
            "rule_files": [str(file) for file in rules],
        }
        configuration.write_text(yaml.safe_dump(content), encoding="utf-8")
        (port,) = free_ports(1)
        self._url = f"http://127.0.0.1:{port}"
        options = [f"--config.file={configuration}", f"--storage.tsdb.path={directory / 'data'}"]
        self._process = Process("prometheus", [binary, *options, f"--web.listen-address=127.0.0.1:{port}"], directory)

    def __enter__(self) -> Self:
        self._process.wait_until(self._ready, 30.0)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop()

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer. Raises AssertionError with the message of Prometheus if it refuses the question."""
        try:
            with urlopen(f"{self._url}/api/v1/{path}?{urlencode(parameters)}", timeout=30) as answer:
                return json.load(answer)["data"]
        except URLError as error:
            said = error.read().decode() if hasattr(error, "read") else str(error)
            raise AssertionError(f"{path} {parameters}: {said}") from None

    def series(self, query: str, start: float, end: float) -> Sequence[dict[str, str]]:
        """The labels of the series of a query in a time span."""
        found = self.get("query_range", query=query, start=str(start), end=str(end), step="1")["result"]
        return [series["metric"] for series in found]

    def numbers(self, query: str, start: float, end: float) -> Sequence[float]:
        """The finite values of a query in each second of a time span."""
        found = self.get("query_range", query=query, start=str(start), end=str(end), step="1")["result"]
        values = (float(value) for series in found for _, value in series["values"])
        return [value for value in values if math.isfinite(value)]

    def names(self) -> frozenset[str]:
        """The names of all metrics."""
        return frozenset(self.get("label/__name__/values"))

    def _ready(self) -> bool:
        try:
            with urlopen(f"{self._url}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False
