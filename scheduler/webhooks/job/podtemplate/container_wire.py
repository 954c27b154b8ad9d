"""A container as typed structs."""

from msgspec import field

from scheduler.api.objects import Wire
from scheduler.webhooks.job.podtemplate.wire import (
    FieldRef,
    Int32,
    Int64,
    Loose,
    Named,
    Profile,
    ResourceFieldRef,
    Resources,
)


class KeyRef(Wire):
    name: str = ""
    key: str = ""


class FileKeyRef(Wire):
    volume_name: str = ""
    path: str = ""
    key: str = ""


class EnvSource(Wire):
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceFieldRef | None = None
    config_map_key_ref: KeyRef | None = None
    secret_key_ref: KeyRef | None = None
    file_key_ref: FileKeyRef | None = None


class EnvVar(Wire):
    name: str = ""
    value: str = ""
    value_from: EnvSource | None = None


class EnvFrom(Wire):
    prefix: str = ""
    config_map_ref: Named | None = None
    secret_ref: Named | None = None


class Header(Wire):
    name: str = ""
    value: str = ""


class ExecAction(Wire):
    command: list[str] = field(default_factory=list)


class HttpGet(Wire):
    path: str = "/"
    port: Int32 | str = 0
    scheme: str = "HTTP"
    http_headers: list[Header] = field(default_factory=list)


class TcpSocket(Wire):
    port: Int32 | str = 0


class Grpc(Wire):
    port: Int32 = 0


class Sleep(Wire):
    seconds: Int64 = 0


class Handler(Wire):
    exec: ExecAction | None = None
    http_get: HttpGet | None = None
    tcp_socket: TcpSocket | None = None
    grpc: Grpc | None = None
    sleep: Sleep | None = None


class Probe(Handler):
    initial_delay_seconds: Int32 = 0
    timeout_seconds: Int32 = 0
    period_seconds: Int32 = 0
    success_threshold: Int32 = 0
    failure_threshold: Int32 = 0
    termination_grace_period_seconds: Int64 | None = None


class Lifecycle(Wire):
    post_start: Handler | None = None
    pre_stop: Handler | None = None
    stop_signal: str | None = None


class Capabilities(Wire):
    add: list[str] = field(default_factory=list)


class SecurityContext(Wire):
    privileged: bool | None = None
    run_as_user: Int64 | None = None
    run_as_group: Int64 | None = None
    proc_mount: str | None = None
    allow_privilege_escalation: bool | None = None
    capabilities: Capabilities | None = None
    seccomp_profile: Profile | None = None
    app_armor_profile: Profile | None = None


class Port(Wire):
    name: str = ""
    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class VolumeMount(Wire):
    name: str = ""
    mount_path: str = ""
    read_only: bool = False
    recursive_read_only: str | None = None
    sub_path: str = ""
    sub_path_expr: str = ""
    mount_propagation: str | None = None


class VolumeDevice(Wire):
    name: str = ""
    device_path: str = ""


class ResizePolicy(Wire):
    resource_name: str = ""
    restart_policy: str = ""


class Container(Wire):
    name: str = ""
    image: str = ""
    image_pull_policy: str = ""
    termination_message_policy: str = ""
    restart_policy: str | None = None
    restart_policy_rules: list[Loose] = field(default_factory=list)
    ports: list[Port] = field(default_factory=list)
    env: list[EnvVar] = field(default_factory=list)
    env_from: list[EnvFrom] = field(default_factory=list)
    volume_mounts: list[VolumeMount] = field(default_factory=list)
    volume_devices: list[VolumeDevice] = field(default_factory=list)
    resources: Resources = field(default_factory=Resources)
    resize_policy: list[ResizePolicy] = field(default_factory=list)
    security_context: SecurityContext | None = None
    lifecycle: Lifecycle | None = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    command: list[str] = field(default_factory=list)
    args: list[str] = field(default_factory=list)
    working_dir: str = ""
    stdin: bool = False
    tty: bool = False
