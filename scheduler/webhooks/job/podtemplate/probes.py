"""Probes and hooks: what the kubelet asks of a running container."""

from scheduler.webhooks import names
from scheduler.webhooks.fields import (
    Problems,
    among,
    forbidden,
    invalid,
    invalid_each,
    required,
    unsupported,
)
from scheduler.webhooks.job.podtemplate.container_wire import Container, Handler, HttpGet, Lifecycle, Probe
from scheduler.webhooks.quantities import NOT_NEGATIVE

_SIGNALS = (
    "SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGIO",
    "SIGIOT", "SIGKILL", "SIGPIPE", "SIGPOLL", "SIGPROF", "SIGPWR", "SIGQUIT", "SIGRTMAX",
    *sorted(f"SIGRTMAX-{number}" for number in range(1, 15)), "SIGRTMIN",
    *sorted(f"SIGRTMIN+{number}" for number in range(1, 16)), "SIGSEGV", "SIGSTKFLT", "SIGSTOP", "SIGSYS", "SIGTERM",
    "SIGTRAP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGWINCH", "SIGXCPU",
    "SIGXFSZ",
)  # fmt: skip


def check_life(container: Container, grace: int, system: str | None, path: str) -> Problems:
    """Hooks and probes of a container that runs as long as its Pod. ``grace``: seconds the Pod has to end."""
    if container.lifecycle is not None:
        yield from _check_lifecycle(container.lifecycle, grace, system, f"{path}.lifecycle")
    for key, probe in (
        ("livenessProbe", container.liveness_probe),
        ("readinessProbe", container.readiness_probe),
        ("startupProbe", container.startup_probe),
    ):
        if probe is None:
            continue
        where = f"{path}.{key}"
        yield from _check_probe(probe, grace, where)
        if key != "readinessProbe":
            if probe.success_threshold not in (0, 1):
                yield invalid(f"{where}.successThreshold", probe.success_threshold, "must be 1")
        elif probe.termination_grace_period_seconds is not None:
            seconds = probe.termination_grace_period_seconds
            text = "must not be set for readinessProbes"
            yield invalid(f"{where}.terminationGracePeriodSeconds", seconds, text)


def forbid_life(container: Container, path: str) -> Problems:
    """An init container that ends has neither hooks nor probes."""
    for key, given in (
        ("lifecycle", container.lifecycle),
        ("livenessProbe", container.liveness_probe),
        ("readinessProbe", container.readiness_probe),
        ("startupProbe", container.startup_probe),
    ):
        if given is not None:
            text = "may not be set for init containers without restartPolicy=Always"
            yield forbidden(f"{path}.{key}", text)


def _check_probe(probe: Probe, grace: int, path: str) -> Problems:
    yield from _check_handler(probe, grace, path)
    for key, number in (
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ):
        if number < 0:
            yield invalid(f"{path}.{key}", number, NOT_NEGATIVE)
    seconds = probe.termination_grace_period_seconds
    if seconds is not None and seconds <= 0:
        yield invalid(f"{path}.terminationGracePeriodSeconds", seconds, "must be greater than 0")


def _check_lifecycle(lifecycle: Lifecycle, grace: int, system: str | None, path: str) -> Problems:
    for key, handler in (("postStart", lifecycle.post_start), ("preStop", lifecycle.pre_stop)):
        if handler is not None:
            yield from _check_handler(handler, grace, f"{path}.{key}")
    if lifecycle.stop_signal is None:
        return
    where = f"{path}.stopSignal"
    if system is None:
        yield forbidden(where, "may not be set for containers with empty `spec.os.name`")
    elif system in ("linux", "windows"):
        signals = _SIGNALS if system == "linux" else ("SIGKILL", "SIGTERM")
        yield from among(where, lifecycle.stop_signal, signals)


def _check_handler(handler: Handler, grace: int, path: str) -> Problems:
    checks: dict[str, Problems] = {}
    if handler.exec is not None:
        missing = [] if handler.exec.command else [required(f"{path}.exec.command")]
        checks["exec"] = iter(missing)
    if handler.http_get is not None:
        checks["httpGet"] = _check_http(handler.http_get, f"{path}.httpGet")
    if handler.tcp_socket is not None:
        checks["tcpSocket"] = _check_port(handler.tcp_socket.port, f"{path}.tcpSocket.port")
    if handler.grpc is not None:
        checks["grpc"] = _check_port(handler.grpc.port, f"{path}.grpc.port")
    if handler.sleep is not None:
        checks["sleep"] = _check_sleep(handler.sleep.seconds, grace, f"{path}.sleep")
    if not checks:
        yield required(path, "must specify a handler type")
    for index, (key, problems) in enumerate(checks.items()):
        if index:
            yield forbidden(f"{path}.{key}", "may not specify more than 1 handler type")
        else:
            yield from problems


def _check_http(http: HttpGet, path: str) -> Problems:
    yield from _check_port(http.port, f"{path}.port")
    if http.scheme and http.scheme not in ("HTTP", "HTTPS"):
        yield unsupported(f"{path}.scheme", http.scheme, ("HTTP", "HTTPS"))
    for header in http.http_headers:
        yield from invalid_each(f"{path}.httpHeaders", header.name, names.header_name(header.name))


def _check_port(port: int | str, path: str) -> Problems:
    wrong = names.port_name(port) if isinstance(port, str) else names.port_number(port)
    for text in wrong:
        yield invalid(path, port, text)


def _check_sleep(seconds: int, grace: int, path: str) -> Problems:
    if not 0 < seconds <= grace:
        text = (
            f"must be greater than 0 and less than terminationGracePeriodSeconds ({grace}). Enable "
            "AllowPodLifecycleSleepActionZeroValue feature gate for zero sleep."
        )
        yield invalid(path, seconds, text)
