"""The objects that Helm renders from the chart, with various values."""

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane import build, manifests
from controlplane.manifests import CHART, NAMESPACE, RELEASE, TARGET
from controlplane.run import ControlPlane
from scheduler.cluster.kube.transport.sources import sources
from scheduler.controllers.catalogue import make_controllers
from scheduler.controllers.store import Store
from scheduler.webhooks.routes import ServiceReference, configuration, name_of, routes
from tests.integration import chart_values
from tests.rights_in_use import ALL_VALUES

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]
Render = Callable[..., list[Json]]


@pytest.fixture(scope="module")
def helm(control_plane: ControlPlane) -> Path:
    return control_plane.binaries / "helm"


@pytest.fixture(scope="module")
def render(helm: Path) -> Render:
    """Returns the objects for these ``--set`` options."""

    def rendered(*values: str) -> list[Json]:
        text = manifests.template(helm, *(f"--set={value}" for value in values))
        return [each for each in yaml.safe_load_all(text) if each]

    return rendered


def named(objects: list[Json], kind: str, role: str) -> Json:
    (found,) = [each for each in objects if each["kind"] == kind and each["metadata"]["name"] == f"{RELEASE}-{role}"]
    return found


def container(objects: list[Json], role: str) -> Json:
    (found,) = named(objects, "Deployment", role)["spec"]["template"]["spec"]["containers"]
    return dict(found)


def rules(objects: list[Json], role: str = "") -> list[Json]:
    """The rules of every ClusterRole and Role, or of the ClusterRoles and Roles of one role."""
    return [
        rule
        for each in objects
        if each["kind"] in ("ClusterRole", "Role") and each["metadata"]["name"].startswith(f"{RELEASE}-{role}")
        for rule in each["rules"]
    ]


def test_helm_lint_reports_nothing(helm: Path) -> None:
    done = subprocess.run([helm, "lint", "--strict", CHART], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_plain_manifests_are_what_the_chart_renders(helm: Path) -> None:
    assert TARGET.read_text(encoding="utf-8") == manifests.manifests(helm), "run `make manifests`"


def test_the_plain_manifests_are_accepted(control_plane: ControlPlane) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}?fieldManager=test"
    control_plane.admin.patch(path, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, "apply")
    # Other tests may have created the roles of the chart, with other rules.
    said = control_plane.kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", TARGET)
    assert len(said.splitlines()) == len([each for each in yaml.safe_load_all(TARGET.read_text()) if each])


def test_webhook_configurations_are_those_of_the_program(render: Render) -> None:
    objects = render(f"webhooks.admissions={{{','.join(routes())}}}", "webhooks.timeoutSeconds=10")
    at = ServiceReference(NAMESPACE, f"{RELEASE}-webhooks")
    found = {each["metadata"]["name"]: each for each in objects if each["kind"].endswith("WebhookConfiguration")}
    assert found.keys() == {name_of(route) for route in routes().values()}
    for route in routes().values():
        wanted = configuration(route, at, "", NAMESPACE)
        wanted["webhooks"][0]["clientConfig"].pop("caBundle")
        rendered = found[name_of(route)]
        assert rendered["kind"] == wanted["kind"]
        assert rendered["webhooks"] == wanted["webhooks"]


@pytest.mark.parametrize(("value", "policy"), [("", "off"), ("off", "off"), ("false", "off"), ("warn", "warn")])
def test_the_webhooks_may_list_nodes_only_if_they_compare_quotas_with_cards(
    render: Render, value: str, policy: str
) -> None:
    objects = render(f"webhooks.cardOverGrant={value}") if value else render()
    listed = [rule["verbs"] for rule in rules(objects, "webhooks") if "nodes" in rule["resources"]]
    assert listed == ([] if policy == "off" else [["list"]])
    assert f"--card-over-grant={policy}" in container(objects, "webhooks")["args"]


def test_each_shard_has_a_scheduler_with_a_lease_and_the_right_to_its_claims(render: Render) -> None:
    objects = render("scheduler.shards={infer,train}")
    names = [f"{RELEASE}-scheduler-{shard}" for shard in ("infer", "train")]
    deployments = [
        each for each in objects if each["kind"] == "Deployment" and "-scheduler" in each["metadata"]["name"]
    ]
    assert [each["metadata"]["name"] for each in deployments] == names
    for each, shard in zip(deployments, ("infer", "train"), strict=True):
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert each["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert labels["volcano-py/shard"] == shard
        arguments = each["spec"]["template"]["spec"]["containers"][0]["args"]
        assert {"--scheduler-sharding-mode=hard", f"--scheduler-sharding-name={shard}"} <= set(arguments)
        assert f"--leader-elect-resource-name={RELEASE}-scheduler" in arguments, "the program adds the shard"
    leases = [each["metadata"]["name"] for each in objects if each["kind"] == "Lease"]
    assert {*names, f"{RELEASE}-scheduler"} <= set(leases)
    (update,) = [rule for rule in rules(objects, "scheduler") if rule["verbs"] == ["get", "update"]]
    assert update["resourceNames"] == [f"{RELEASE}-scheduler", *names]
    granted = {
        (what, verb) for rule in rules(objects, "scheduler") for what in rule["resources"] for verb in rule["verbs"]
    }
    needed = {("nodeshards", "list"), ("nodeshards", "watch"), ("nodeshards", "patch"), ("nodeshards/status", "patch")}
    assert needed <= granted
    assert not any("nodeshards" in rule["resources"] for rule in rules(render()))


def test_secrets_are_named_except_those_of_job_plugins(render: Render) -> None:
    """Nor has any rule a wildcard."""
    given = rules(render(*ALL_VALUES))
    assert "*" not in {word for rule in given for key in ("apiGroups", "resources", "verbs") for word in rule[key]}
    secrets = [rule for rule in given if "secrets" in rule["resources"]]
    by_name = [rule for rule in secrets if rule.get("resourceNames")]
    assert sorted((rule["resourceNames"], rule["verbs"]) for rule in by_name) == [
        ([f"{RELEASE}-scheduler-certificate"], ["get", "patch"]),
        ([f"{RELEASE}-signing-key"], ["get", "patch"]),
        ([f"{RELEASE}-webhooks-certificate"], ["get", "patch"]),
    ]
    assert [rule["verbs"] for rule in secrets if rule not in by_name] == [["get", "create", "delete"]]


def test_the_scheduler_may_watch_only_the_kinds_it_reads(render: Render) -> None:
    for shards in ((), ("train",)):
        wanted = {(source.kind.group, source.kind.plural) for source in sources(shards=bool(shards))}
        assert watched(rules(render(*(f"scheduler.shards={{{shard}}}" for shard in shards)), "scheduler")) == wanted


def test_the_controllers_may_watch_only_the_kinds_they_read(render: Render) -> None:
    kinds = {kind for controller in make_controllers(Store(), ("s",)) for kind in controller.kinds}
    assert watched(rules(render(), "controllers")) == {(kind.group, kind.plural) for kind in kinds}


def watched(given: list[Json]) -> set[tuple[str, str]]:
    return {
        (group, resource)
        for rule in given
        if "watch" in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_pods_may_do_nothing_that_a_restricted_namespace_forbids(render: Render) -> None:
    for role in ("scheduler", "controllers", "webhooks"):
        assert container(render(), role)["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_names_of_schedulers_reach_all_roles_and_own_flags_come_last(render: Render) -> None:
    objects = render("schedulerNames={volcano,batch}", "scheduler.extraArgs={--schedule-period=2s}")
    for role in ("scheduler", "controllers", "webhooks"):
        flags = container(objects, role)["args"]
        assert [word for word in flags if word.startswith("--scheduler-name")] == [
            "--scheduler-name=volcano",
            "--scheduler-name=batch",
        ]
    assert container(objects, "scheduler")["args"][-1] == "--schedule-period=2s"


@pytest.mark.parametrize("role", ["scheduler", "controllers", "webhooks"])
def test_a_volume_of_ones_own_is_mounted_beside_those_of_the_chart(render: Render, role: str) -> None:
    volume = f"{role}.extraVolumes[0].name=mine", f"{role}.extraVolumes[0].configMap.name=plugins"
    mount = f"{role}.extraVolumeMounts[0].name=mine", f"{role}.extraVolumeMounts[0].mountPath=/plugins"
    objects, plain = render(*volume, *mount), render()
    pod = named(objects, "Deployment", role)["spec"]["template"]["spec"]
    before = named(plain, "Deployment", role)["spec"]["template"]["spec"].get("volumes", [])
    assert pod["volumes"] == [*before, {"name": "mine", "configMap": {"name": "plugins"}}]
    mounts = container(plain, role).get("volumeMounts", [])
    assert container(objects, role)["volumeMounts"] == [*mounts, {"name": "mine", "mountPath": "/plugins"}]


def test_with_an_external_certificate_no_secret_is_created_or_may_be_read(render: Render) -> None:
    objects = render("webhooks.tlsSecret=mine")
    assert [each["metadata"]["name"] for each in objects if each["kind"] == "Secret"] == [f"{RELEASE}-signing-key"]
    assert "secrets" not in {resource for rule in rules(objects, "webhooks") for resource in rule["resources"]}
    (mount,) = [each for each in container(objects, "webhooks")["volumeMounts"] if each["name"] == "tls"]
    flags = [word for word in container(objects, "webhooks")["args"] if word.startswith(("--tls", "--ca-", "--cert"))]
    assert [word.partition("=")[2] for word in flags] == [
        f"{mount['mountPath']}/{file}" for file in ("tls.crt", "tls.key", "ca.crt")
    ]


def test_without_leader_election_there_are_no_leases_and_no_permissions_for_them(render: Render) -> None:
    objects = render("leaderElection.enabled=false")
    assert not [each for each in objects if each["kind"] == "Lease"]
    assert "leases" not in {resource for rule in rules(objects) for resource in rule["resources"]}
    assert "--leader-elect=false" in container(objects, "controllers")["args"]


def test_several_replicas_get_a_disruption_budget_and_one_gets_none(render: Render) -> None:
    def budgets(*values: str) -> list[str]:
        return sorted(each["metadata"]["name"] for each in render(*values) if each["kind"] == "PodDisruptionBudget")

    assert budgets() == [f"{RELEASE}-webhooks"]
    assert budgets("scheduler.replicas=3", "webhooks.replicas=1") == [f"{RELEASE}-scheduler"]


@pytest.mark.parametrize("role", ["scheduler", "controllers", "webhooks"])
def test_a_role_that_is_switched_off_leaves_nothing(render: Render, role: str) -> None:
    objects = render(f"{role}.enabled=false", "serviceMonitor.enabled=true")
    assert not [each for each in objects if each["metadata"]["name"].startswith(f"{RELEASE}-{role}")]
    if role == "webhooks":
        assert not [each for each in objects if each["kind"].endswith("WebhookConfiguration")]


def gang_of(pod: Json) -> Json:
    """The vcjob that the Pod of `helm test` creates."""
    script = pod["spec"]["containers"][0]["command"][-1]
    found: Json = yaml.safe_load(script.partition('input="""\n')[2].partition('"""')[0])
    return found


def test_objects_of_helm_test_are_hooks_and_absent_from_plain_manifests(helm: Path, render: Render) -> None:
    def tests(*values: str) -> list[Json]:
        options = (f"--namespace={NAMESPACE}", f"--kube-version={build.kubernetes_version()}")
        command: list[str | Path] = [
            helm,
            "template",
            RELEASE,
            CHART,
            *options,
            *(f"--set={value}" for value in values),
        ]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        hooked = (each for each in yaml.safe_load_all(text) if each and each["metadata"]["name"] == f"{RELEASE}-test")
        return sorted(hooked, key=lambda each: str(each["kind"]))

    pod, role, binding, account = tests("image.tag=new", "imagePullSecrets[0].name=mine", "schedulerNames={batch}")
    assert [each["kind"] for each in (pod, role, binding, account)] == ["Pod", "Role", "RoleBinding", "ServiceAccount"]
    assert {each["metadata"]["annotations"]["helm.sh/hook"] for each in (pod, role, binding, account)} == {"test"}
    spec = pod["spec"]
    assert (spec["schedulerName"], spec["imagePullSecrets"]) == ("batch", [{"name": "mine"}])
    manifest = gang_of(pod)
    template = manifest["spec"]["tasks"][0]["template"]["spec"]
    assert manifest["spec"]["schedulerName"] == "batch"
    assert template["imagePullSecrets"] == [{"name": "mine"}]
    assert template["containers"][0]["image"] == spec["containers"][0]["image"] == "volcano-py:new"
    assert tests("controllers.enabled=false") == []  # nothing creates the Pods of the vcjob
    assert not [each for each in render() if each["metadata"]["name"] == f"{RELEASE}-test"]


def test_service_monitors_find_the_port_of_metrics(render: Render) -> None:
    objects = render("serviceMonitor.enabled=true", "serviceMonitor.labels.release=prometheus")
    for role in ("scheduler", "controllers", "webhooks"):
        monitor = named(objects, "ServiceMonitor", role)
        assert monitor["metadata"]["labels"]["release"] == "prometheus"
        labels = monitor["spec"]["selector"]["matchLabels"]
        service = named(objects, "Service", role)
        assert labels.items() <= service["metadata"]["labels"].items()
        (port,) = [each for each in service["spec"]["ports"] if each["name"] == "metrics"]
        assert port["targetPort"] in {each["name"] for each in container(objects, role)["ports"]}


def test_dashboards_are_config_maps_that_the_sidecar_of_grafana_finds(render: Render) -> None:
    assert not [each for each in render() if "-dashboard-" in each["metadata"]["name"]]
    objects = render("dashboards.enabled=true", "dashboards.annotations.grafana_folder=Scheduling")
    files = {path.stem: path.read_text(encoding="utf-8") for path in (CHART / "dashboards").glob("*.json")}
    assert files
    for name, text in files.items():
        found = named(objects, "ConfigMap", f"dashboard-{name}")
        assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert found["metadata"]["annotations"] == {"grafana_folder": "Scheduling"}
        assert found["data"] == {f"volcano-py-{name}.json": text}


@pytest.mark.parametrize(
    ("value", "name", "file"),
    [("enabled", "alerts", "volcano-py"), ("volcanoDashboards", "volcano-dashboards", "volcano-dashboards")],
)
def test_rules_of_prometheus_have_the_contents_of_the_plain_file(
    render: Render, value: str, name: str, file: str
) -> None:
    assert not [each for each in render() if each["kind"] == "PrometheusRule"]
    objects = render(f"prometheusRule.{value}=true", "prometheusRule.labels.release=prometheus")
    rule = named(objects, "PrometheusRule", name)
    assert [each for each in objects if each["kind"] == "PrometheusRule"] == [rule]
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    assert rule["spec"] == yaml.safe_load((CHART / "rules" / f"{file}.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("scheduler.replicas=two", "/scheduler/replicas"),
        ("webhooks.admissions={/jobs/approve}", "/webhooks/admissions/0"),
        ("webhooks.timeoutSeconds=31", "/webhooks/timeoutSeconds"),
        ("webhooks.cardOverGrant=forbid", "/webhooks/cardOverGrant"),
        ("scheduler.schedulePeriod=often", "/scheduler/schedulePeriod"),
        ("schedulerNames=", "/schedulerNames"),
        ("sheduler.replicas=2", "sheduler"),
    ],
)
def test_a_wrong_value_is_refused_by_name(render: Render, value: str, said: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        render(value)
    assert said in refused.value.stderr


def test_the_policy_for_annotations_of_devices_is_there_unless_it_is_switched_off_or_kubernetes_has_none(
    helm: Path, render: Render
) -> None:
    def policies(objects: list[Json]) -> list[str]:
        return [each["kind"] for each in objects if each["metadata"]["name"] == f"{RELEASE}-device-annotations"]

    assert sorted(policies(render())) == [
        "ClusterRole",
        "ClusterRoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ]
    assert policies(render("deviceAnnotations.protected=false")) == []
    old = subprocess.run(
        [helm, "template", RELEASE, CHART, "--kube-version=v1.29.3"], capture_output=True, text=True, check=True
    ).stdout
    assert policies([each for each in yaml.safe_load_all(old) if each]) == []


def test_objects_of_a_release_of_another_name_and_namespace_belong_together(helm: Path) -> None:
    command: list[str | Path] = [
        helm,
        "template",
        "batch",
        CHART,
        "--namespace=elsewhere",
        f"--kube-version={build.kubernetes_version()}",
        "--set-json=deviceAnnotations.writers=[]",
    ]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    objects = [each for each in yaml.safe_load_all(text) if each]
    (scheduler,) = [
        each
        for each in objects
        if each["metadata"]["name"] == "batch-volcano-py-scheduler" and each["kind"] == "Deployment"
    ]
    assert scheduler["metadata"]["namespace"] == "elsewhere"
    assert RELEASE not in {each["metadata"]["name"] for each in objects}
    subjects = [subject for each in objects for subject in each.get("subjects", ())]
    accounts = {each["metadata"]["name"] for each in objects if each["kind"] == "ServiceAccount"}
    assert {(subject["name"], subject["namespace"]) for subject in subjects} == {
        (name, "elsewhere") for name in accounts
    }


def test_the_api_for_tenants_is_off_by_default_and_asks_for_no_rights_then(render: Render) -> None:
    objects = render()

    assert not any(each["kind"] == "APIService" for each in objects)
    assert not any("visibility" in word for word in container(objects, "scheduler")["args"])
    assert not any("subjectaccessreviews" in rule["resources"] for rule in rules(objects, "scheduler"))


def test_the_api_for_tenants_has_its_port_and_exactly_its_rights(render: Render) -> None:
    without, objects = render(), render("scheduler.visibility.enabled=true")

    (service,) = [each for each in objects if each["kind"] == "APIService"]
    assert service["spec"]["service"] == {"name": f"{RELEASE}-scheduler", "namespace": NAMESPACE, "port": 443}
    ports = {port["name"]: port["port"] for port in named(objects, "Service", "scheduler")["spec"]["ports"]}
    assert ports == {"metrics": 8080, "visibility": 443}
    assert {"name": "visibility", "containerPort": 8443} in container(objects, "scheduler")["ports"]
    before = rules(without, "scheduler")
    added = {
        (verb, resource, *rule.get("resourceNames", ()))
        for rule in rules(objects, "scheduler")
        if rule not in before
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }
    assert added == {
        ("create", "tokenreviews"),
        ("create", "subjectaccessreviews"),
        ("get", "apiservices", "v1alpha1.visibility.volcano-py.io"),
        ("patch", "apiservices", "v1alpha1.visibility.volcano-py.io"),
        ("list", "jobs"),
        ("watch", "jobs"),
        ("list", "ascendjobs"),
        ("watch", "ascendjobs"),
        ("list", "cronjobs"),
        ("list", "daemonsets"),
        ("list", "deployments"),
        ("list", "jobflows"),
        ("list", "jobtemplates"),
        ("get", "secrets", f"{RELEASE}-scheduler-certificate"),
        ("patch", "secrets", f"{RELEASE}-scheduler-certificate"),
        ("get", "configmaps", "extension-apiserver-authentication"),
    }


def test_the_web_page_is_off_by_default_and_needs_no_more_rights(render: Render) -> None:
    without = render("scheduler.visibility.enabled=true")
    objects = render("scheduler.visibility.enabled=true", "scheduler.visibility.page=true")

    assert "--visibility-page=true" not in container(without, "scheduler")["args"]
    assert "--visibility-page=true" in container(objects, "scheduler")["args"]
    assert rules(objects, "scheduler") == rules(without, "scheduler")


def test_the_web_page_without_the_api_for_tenants_is_refused(render: Render) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        render("scheduler.visibility.page=true")
    assert "scheduler.visibility.page needs scheduler.visibility.enabled=true" in refused.value.stderr


def test_roles_of_a_namespace_may_ask_the_scheduler(render: Render) -> None:
    (role,) = [each for each in render() if each["metadata"]["name"] == f"{RELEASE}-queue-viewer"]

    assert role["kind"] == "ClusterRole"
    assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    rights = {(verb, kind) for rule in role["rules"] for verb in rule["verbs"] for kind in rule["resources"]}
    writes = {right for right in rights if right[0] not in ("get", "list", "watch")}
    assert writes == {("create", "runreviews")}  # a question: nothing is stored


ROLES = ("scheduler", "controllers", "webhooks")


def all_objects(helm: Path, options: Sequence[str]) -> list[Json]:
    """The objects of `helm template`, with those of `helm test`."""
    command: list[str | Path] = [helm, "template", RELEASE, CHART, f"--namespace={NAMESPACE}", *options]
    command.append(f"--kube-version={build.kubernetes_version()}")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [each for each in yaml.safe_load_all(done.stdout) if each]


@pytest.mark.parametrize(("name", "options"), chart_values.of_files())
def test_labels_and_annotations_of_ones_own_are_on_all_objects(helm: Path, name: str, options: Sequence[str]) -> None:
    own = ["--set=commonLabels.team=batch", "--set=commonAnnotations.owner=me"]
    objects = all_objects(helm, [*options, *own])
    assert objects, name
    for each in objects:
        where = f"{each['kind']} {each['metadata']['name']}"
        labels, annotations = each["metadata"]["labels"], each["metadata"]["annotations"]
        assert (labels["team"], annotations["owner"]) == ("batch", "me"), where
        assert {"name", "instance", "part-of", "version", "managed-by"} <= recommended(labels), where
        if each["kind"] == "Deployment":
            assert each["spec"]["template"]["metadata"]["labels"]["team"] == "batch"
            assert "team" not in each["spec"]["selector"]["matchLabels"]


def recommended(labels: dict[str, str]) -> set[str]:
    return {key.partition("/")[2] for key in labels if key.startswith("app.kubernetes.io/")}


def test_a_label_that_the_chart_sets_is_refused(render: Render) -> None:
    for value in ("commonLabels", "scheduler.podLabels", "serviceMonitor.labels"):
        with pytest.raises(subprocess.CalledProcessError) as refused:
            render(f"{value}.app\\.kubernetes\\.io/name=other")
        assert "invalid propertyName 'app.kubernetes.io/name'" in refused.value.stderr


@pytest.mark.parametrize("role", ROLES)
def test_each_object_of_a_role_has_annotations_of_its_own(render: Render, role: str) -> None:
    for kind in ("Deployment", "Service", "ServiceAccount"):
        value = f"{kind[0].lower()}{kind[1:]}Annotations"
        annotated = named(render(f"{role}.{value}.mine=yes", "commonAnnotations.all=one"), kind, role)["metadata"]
        assert annotated["annotations"] == {"mine": "yes", "all": "one"}


def test_the_pods_of_helm_test_run_where_their_values_say(helm: Path) -> None:
    tolerations = [{"operator": "Exists"}]
    objects = all_objects(
        helm, ["--set=test.nodeSelector.disk=ssd", f"--set-json=test.tolerations={json.dumps(tolerations)}"]
    )
    pod = named(objects, "Pod", "test")
    for spec in (pod["spec"], gang_of(pod)["spec"]["tasks"][0]["template"]["spec"]):
        assert (spec["nodeSelector"], spec["tolerations"]) == ({"disk": "ssd"}, tolerations)


# --- NetworkPolicies --------------------------------------------------------------------------------------------------
def test_there_are_no_network_policies_by_default(render: Render) -> None:
    assert not [each for each in render() if each["kind"] == "NetworkPolicy"]


@pytest.mark.parametrize("visibility", [False, True])
@pytest.mark.parametrize("role", ROLES)
def test_a_network_policy_opens_the_ports_of_the_service_and_no_others(
    render: Render, role: str, visibility: bool
) -> None:
    objects = render("networkPolicy.enabled=true", f"scheduler.visibility.enabled={str(visibility).lower()}")
    policy = named(objects, "NetworkPolicy", role)["spec"]
    pod = named(objects, "Deployment", role)["spec"]["template"]["metadata"]
    assert policy["podSelector"]["matchLabels"].items() <= pod["labels"].items()
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    served = {port["targetPort"] for port in named(objects, "Service", role)["spec"]["ports"]}
    rules = {rule["ports"][0]["port"]: rule.get("from") for rule in policy["ingress"]}
    assert rules.keys() == served <= {port["name"] for port in container(objects, role)["ports"]}
    metrics = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    assert {name: peers for name, peers in rules.items() if peers} == {
        "health" if role == "webhooks" else "metrics": metrics
    }
    assert policy["egress"] == [{"ports": [{"port": 443}, {"port": 6443}]}]


def test_a_network_policy_names_the_addresses_of_api_servers_in_both_directions(render: Render) -> None:
    objects = render(
        "networkPolicy.enabled=true",
        "networkPolicy.apiServer.peers[0].ipBlock.cidr=10.0.0.0/28",
        "networkPolicy.apiServer.ports={6443}",
        "networkPolicy.metricsFrom=null",
    )
    servers = [{"ipBlock": {"cidr": "10.0.0.0/28"}}]
    policy = named(objects, "NetworkPolicy", "webhooks")["spec"]
    assert policy["ingress"] == [{"ports": [{"port": "webhook"}], "from": servers}]
    assert policy["egress"] == [{"ports": [{"port": 6443}], "to": servers}]
    assert named(objects, "NetworkPolicy", "controllers")["spec"]["ingress"] == []


PROMETHEUS = {"type": "prometheus", "address": "http://prometheus.monitoring:9090"}
EXTENDER = [
    {"plugins": [{"name": "gang"}, {"name": "extender", "arguments": {"extender.urlPrefix": "http://extender:80"}}]}
]


@pytest.fixture
def egress(helm: Path, tmp_path: Path) -> Callable[..., list[list[Json]]]:
    """Returns the rules of egress of each role for a configuration of the scheduler and options of Helm."""

    def rendered(configuration: Json, *options: str) -> list[list[Json]]:
        path = tmp_path / "configuration"
        path.write_text(yaml.safe_dump({"actions": "allocate", **configuration}), encoding="utf-8")
        given = ["--set=networkPolicy.enabled=true", f"--set-file=scheduler.configuration={path}", *options]
        objects = all_objects(helm, given)
        return [named(objects, "NetworkPolicy", role)["spec"]["egress"] for role in ROLES]

    return rendered


@pytest.mark.parametrize(
    ("configuration", "named_system"),
    [({"metrics": PROMETHEUS}, "http://prometheus.monitoring:9090"), ({"tiers": EXTENDER}, "http://extender:80")],
)
def test_a_system_that_the_scheduler_asks_needs_a_rule(
    egress: Callable[..., list[list[Json]]], configuration: Json, named_system: str
) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        egress(configuration)
    assert f"scheduler.configuration names {named_system}: networkPolicy.schedulerEgress" in refused.value.stderr


@pytest.mark.parametrize(
    "configuration",
    [{"metrics": {**PROMETHEUS, "type": "prometheus_adaptor"}}, {"metrics": 1, "tiers": [2, {"plugins": [3]}]}],
)
def test_what_the_api_server_answers_and_what_is_malformed_needs_no_rule(
    egress: Callable[..., list[list[Json]]], configuration: Json
) -> None:
    assert [len(rules) for rules in egress(configuration)] == [1, 1, 1]


def test_only_a_scheduler_that_asks_other_systems_asks_name_servers(egress: Callable[..., list[list[Json]]]) -> None:
    usage = {"to": [{"namespaceSelector": {}}], "ports": [{"port": 9090}]}
    option = f"--set-json=networkPolicy.schedulerEgress={json.dumps([usage])}"
    scheduler, *others = egress({"metrics": PROMETHEUS, "tiers": EXTENDER}, option)
    assert [len(rules) for rules in others] == [1, 1]
    assert scheduler[1] == usage
    assert scheduler[2]["ports"] == [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]


# --- certificates -----------------------------------------------------------------------------------------------------
CERT_MANAGER = ("certManager.enabled=true", "scheduler.visibility.enabled=true")


def injected(found: Json) -> str:
    """The Certificate whose authority cert-manager writes into an object."""
    annotations = found["metadata"].get("annotations") or {}
    return str(annotations.get("cert-manager.io/inject-ca-from", ""))


def test_with_cert_manager_it_writes_certificates_and_authorities_and_the_program_may_not(render: Render) -> None:
    objects = render(*CERT_MANAGER)
    for role in ("webhooks", "scheduler"):
        spec = named(objects, "Certificate", role)["spec"]
        assert f"{RELEASE}-{role}.{NAMESPACE}.svc" in spec["dnsNames"]
        assert spec["issuerRef"] == {"group": "cert-manager.io", "kind": "Issuer", "name": f"{RELEASE}-authority"}
        volumes = named(objects, "Deployment", role)["spec"]["template"]["spec"]["volumes"]
        assert {"name": "tls", "secret": {"secretName": spec["secretName"]}} in volumes
        flags = [word.partition("=")[2] for word in container(objects, role)["args"] if "tls-" in word]
        assert flags == ["/etc/volcano-py-tls/tls.crt", "/etc/volcano-py-tls/tls.key"]
        trusting = {each["kind"] for each in objects if injected(each) == f"{NAMESPACE}/{RELEASE}-{role}"}
        webhooks = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
        assert trusting == (webhooks if role == "webhooks" else {"APIService"})
    (authority,) = [each for each in objects if each["kind"] == "Certificate" and each["spec"].get("isCA")]
    assert authority["spec"]["secretName"] == named(objects, "Issuer", "authority")["spec"]["ca"]["secretName"]
    assert authority["spec"]["issuerRef"]["name"] == named(objects, "Issuer", "authority-root")["metadata"]["name"]
    allowed = {resource for rule in rules(objects, "") for resource in rule["resources"] if "get" in rule["verbs"]}
    assert not allowed & {"apiservices", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"}
    assert [each["metadata"]["name"] for each in objects if each["kind"] == "Secret"] == [f"{RELEASE}-signing-key"]


def test_an_issuer_of_the_cluster_signs_instead_of_an_authority_of_the_release(render: Render) -> None:
    objects = render(*CERT_MANAGER, "certManager.issuerRef.name=mine", "certManager.issuerRef.kind=ClusterIssuer")
    assert not [each for each in objects if each["kind"] == "Issuer"]
    issuers = [each["spec"]["issuerRef"] for each in objects if each["kind"] == "Certificate"]
    assert issuers == [{"group": "cert-manager.io", "kind": "ClusterIssuer", "name": "mine"}] * 2


def test_a_secret_of_ones_own_comes_before_cert_manager(render: Render) -> None:
    objects = render(*CERT_MANAGER, "webhooks.tlsSecret=mine")
    assert not [each for each in objects if each["kind"] == "Certificate" and "webhooks" in each["metadata"]["name"]]
    assert any(each["kind"] == "Certificate" and "scheduler" in each["metadata"]["name"] for each in objects)
    assert "--ca-cert-file=/etc/volcano-py-tls/ca.crt" in container(objects, "webhooks")["args"]


def test_the_api_for_tenants_may_serve_a_certificate_of_another_program(render: Render) -> None:
    objects = render("scheduler.visibility.enabled=true", "scheduler.visibility.tlsSecret=mine")
    arguments = container(objects, "scheduler")["args"]
    assert "--visibility-ca-cert-file=/etc/volcano-py-tls/ca.crt" in arguments
    assert not any(word.startswith("--visibility-certificate-secret") for word in arguments)
    secrets = [rule.get("resourceNames") for rule in rules(objects, "scheduler") if "secrets" in rule["resources"]]
    assert secrets == [[f"{RELEASE}-signing-key"]]


def test_without_cert_manager_none_of_its_objects_is_created(render: Render) -> None:
    objects = render("scheduler.visibility.enabled=true")
    assert not [each for each in objects if each["apiVersion"].startswith("cert-manager.io")]
    assert not [each for each in objects if injected(each)]
