"""Two replicas of each role. They reach the API server through the fault proxy, and are started again when they end, as
by a kubelet."""

import json
import signal
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Final

from controlplane.manifests import NAMESPACE, RELEASE
from controlplane.process import free_ports
from controlplane.run import ControlPlane
from tests.faults.proxy import FaultProxy
from tests.faults.schedule import Role
from tests.integration.programs import Program
from tests.integration.stage import wait

LEASE: Final = 3.0
"""Seconds for which a lease is valid: short, so that a history is short."""
_ELECTION: Final = (
    f"--leader-elect-lease-duration={LEASE:.0f}s",
    "--leader-elect-renew-deadline=2200ms",
    "--leader-elect-retry-period=700ms",
    f"--leader-elect-resource-namespace={NAMESPACE}",
)
SESSIONS: Final = "volcano_e2e_scheduling_latency_milliseconds"
"""The metric of the times of sessions."""
_EXPECTED_ENDS: Final = frozenset({1, -signal.SIGKILL})
"""Exit codes of a process that lost its lease, and of a killed one."""
_TRACES: Final = ("Traceback (most recent call last)", "was never awaited", "was never retrieved")


class Replica:
    """One process of a role."""

    def __init__(self, role: Role, name: str, command: list[str], log: Path, metrics: int) -> None:
        """``metrics``: the port of its metrics; 0 if it serves none."""
        self.role = role
        self.metrics = metrics
        self.name = name
        self.log = log
        self.frozen_until = 0.0
        """When a frozen process continues; 0: it is not frozen."""
        self._read = 0
        log.touch()
        self.process = Program(command, log)

    def unread(self) -> str:
        """What it has logged since the last call."""
        with self.log.open("rb") as file:
            file.seek(self._read)
            data = file.read()
            self._read = file.tell()
        return data.decode("utf-8", "replace")

    def memory(self) -> float:
        """The memory that it uses, in MiB; 0 if it has ended."""
        try:
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        except OSError:
            return 0.0
        return pages * 4096 / 2**20


class Replicas:
    """All processes of our program."""

    def __init__(
        self,
        plane: ControlPlane,
        proxy: FaultProxy,
        directory: Path,
        options: dict[Role, list[str]],
        *,
        measured: bool = False,
    ) -> None:
        """``measured``: whether processes serve metrics."""
        self._measured = measured
        self._sessions: dict[str, tuple[float, float]] = {}
        """Process -> milliseconds and number of its sessions at the last look."""
        self._proxy = proxy
        self._directory = directory
        self._options = options
        self._numbers: Counter[Role] = Counter()
        self.running: list[Replica] = []
        self.problems: list[str] = []
        """Unexpected exit codes, and logs with tracebacks."""
        self.kills: list[tuple[Role, str, float]] = []
        """Leaders that were killed: role, name, and time of ``time.monotonic``."""
        self.freezes: list[tuple[Role, str, float]] = []
        """Leaders that were stopped with SIGSTOP, in the same way."""
        self._accounts = {
            role: plane.kubeconfig_for(f"system:serviceaccount:{NAMESPACE}:{RELEASE}-{role}") for role in Role
        }

    def start(self, role: Role) -> Replica:
        """Starts another process of a role, with a port of the proxy."""
        self._numbers[role] += 1
        name = f"{role}-{self._numbers[role]}"
        port = self._proxy.listen(name, role)
        config = json.loads(self._accounts[role].read_text(encoding="utf-8"))
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
        kubeconfig = self._directory / f"{name}.json"
        kubeconfig.write_text(json.dumps(config), encoding="utf-8")
        command = [str(role), f"--kubeconfig={kubeconfig}", "--enable-healthz=false"]
        (metrics,) = free_ports(1) if self._measured else (0,)
        command += [f"--listen-address=127.0.0.1:{metrics}" if metrics else "--enable-metrics=false"]
        command += [*_ELECTION, f"--leader-elect-resource-name={RELEASE}-{role}", *self._options[role]]
        replica = Replica(role, name, command, self._directory / f"{name}.log", metrics)
        self.running.append(replica)
        return replica

    def start_all(self) -> None:
        """Starts two replicas of each role, and waits until one leads and one stands by."""
        for role in Role:
            for _ in range(2):
                self.start(role)
        wait(lambda: len(self._proxy.leaders) == len(Role), 60.0)

    def leader(self, role: Role) -> Replica | None:
        """The replica that leads; None between two leaders."""
        name = self._proxy.leaders.get(role)
        return next((each for each in self.running if each.name == name and not each.frozen_until), None)

    def kill(self, replica: Replica) -> None:
        """Kills a process with SIGKILL."""
        if replica.process.poll() is None:
            self.kills.append((replica.role, replica.name, time.monotonic()))
            replica.process.kill()

    def freeze(self, replica: Replica, seconds: float) -> None:
        """Stops a process with SIGSTOP; ``supervise`` continues it."""
        self.freezes.append((replica.role, replica.name, time.monotonic()))
        replica.process.send_signal(signal.SIGSTOP)
        replica.frozen_until = time.monotonic() + seconds

    def session_time(self) -> float:
        """Milliseconds of a session of the leading scheduler on average, since the last call; 0 if there was none."""
        leader = self.leader(Role.SCHEDULER)
        if leader is None:
            return 0.0
        with urllib.request.urlopen(f"http://127.0.0.1:{leader.metrics}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        values = dict(line.rsplit(" ", 1) for line in lines if line.startswith(SESSIONS))
        total, number = (float(values[f"{SESSIONS}_{what}"]) for what in ("sum", "count"))
        before = self._sessions.get(leader.name, (0.0, 0.0))
        self._sessions[leader.name] = total, number
        return (total - before[0]) / max(1.0, number - before[1])

    def by_name(self, name: str) -> Replica | None:
        return next((each for each in self.running if each.name == name), None)

    def supervise(self) -> None:
        """Continues frozen processes whose time has come, and starts a process for each that has ended."""
        now = time.monotonic()
        for replica in list(self.running):
            if replica.frozen_until and now >= replica.frozen_until:
                replica.frozen_until = 0.0
                replica.process.send_signal(signal.SIGCONT)
            code = replica.process.poll()
            if code is not None:
                self._ended(replica, code)
                self.start(replica.role)

    @property
    def frozen(self) -> bool:
        """Whether a process is stopped."""
        return any(replica.frozen_until for replica in self.running)

    def _ended(self, replica: Replica, code: int) -> None:
        self.running.remove(replica)
        self._proxy.close(replica.name)
        if self._proxy.leaders.get(replica.role) == replica.name:
            del self._proxy.leaders[replica.role]
        if code not in _EXPECTED_ENDS:
            self.problems.append(f"{replica.name} exited with {code}")
        self._read(replica)

    def read_logs(self) -> None:
        """Looks for tracebacks in what was logged since the last call."""
        for replica in self.running:
            self._read(replica)

    def _read(self, replica: Replica) -> None:
        text = replica.unread()
        for trace in _TRACES:
            place = text.find(trace)
            if place >= 0:
                self.problems.append(f"{replica.name} logged: {text[max(0, place - 300) : place + 2500]}")
                return

    def stop(self) -> None:
        for replica in self.running:
            replica.process.send_signal(signal.SIGCONT)
            replica.process.terminate()
        for replica in self.running:
            replica.process.wait(40)
        self.read_logs()
