"""The explanation of a vcjob with alternative accelerators has a line for each, with the reason if it does not fit."""

from scheduler.cli.explain_text import lines
from scheduler.explain import explain
from scheduler.explain.can_run import Verdict, can_run
from scheduler.explain.document import explanation_document, run_document
from scheduler.explain.explanation import AlternativeState, Explanation, Outlook
from scheduler.explain.submitted import submitted
from scheduler.explain.tenant import HiddenNames, for_tenant
from tests.builders import manifests
from tests.unit.actions.alternative_jobs import H200, PPU, Cluster, card_job, card_node, card_queue, holder

NODES = [card_node("gpus", H200, 8), card_node("ppus", PPU, 8)]


def explained(cluster: Cluster) -> Explanation:
    return explain(cluster.simulation, "job", "default", "a", search=False)


def states(found: Explanation) -> dict[str, str]:
    return {each.name: each.state for each in found.alternatives}


def reasons(found: Explanation) -> dict[str, str]:
    return {each.name: each.reason for each in found.alternatives}


def test_a_job_that_starts_names_its_choice() -> None:
    found = explained(Cluster(*NODES, card_queue(), card_job("a")))
    assert found.outlook is Outlook.STARTS
    assert states(found) == {H200: "chosen", PPU: "not tried"}


def test_a_job_without_quota_has_the_reason_of_each_alternative() -> None:
    found = explained(Cluster(*NODES, card_queue(quota={H200: 4}), card_job("a")))
    assert found.outlook is Outlook.WAITS
    assert states(found) == {H200: "does not fit", PPU: "does not fit"}
    assert f"insufficient <{H200}> quota: requested <8000>" in reasons(found)[H200]
    assert "but capability is <0>" in reasons(found)[PPU]
    assert [gate.message.partition(":")[0] for gate in found.gates] == [f"alternative {card}" for card in (H200, PPU)]
    assert {gate.plugin for gate in found.gates} == {"capacity-card"}


def test_all_alternatives_of_a_job_whose_pods_wait_are_tried_again() -> None:
    full = [holder("h", "gpus", H200, 8), holder("p", "ppus", PPU, 6)]
    found = explained(Cluster(*NODES, card_queue(), card_job("a"), *full).run())
    assert states(found) == {H200: "chosen", PPU: "does not fit"}
    for card in (H200, PPU):
        assert "0 of 2 Pods find a node" in reasons(found)[card]
    assert "asked 4, most free on one node 2" in reasons(found)[PPU]


def test_a_job_with_nodes_has_the_reasons_of_the_moment_of_its_choice() -> None:
    found = explained(Cluster(*NODES, card_queue(quota={PPU: 8}), card_job("a")).run())
    assert found.outlook is Outlook.PLACED
    assert states(found) == {H200: "does not fit", PPU: "chosen"}
    assert "but capability is <0>" in reasons(found)[H200]


def test_text_and_document_have_the_alternatives() -> None:
    found = explained(Cluster(*NODES, card_queue(quota={PPU: 8}), card_job("a")).run())
    text = [line.split() for line in lines(found)]
    assert ["Alternatives", "(the", "whole", "job", "uses", "one)"] in text
    assert ["PPU-ZW810E", "chosen"] in text
    first, second = explanation_document(found)["alternatives"]
    assert (first["name"], first["state"]) == (H200, "does not fit") and "insufficient" in first["reason"]
    assert second == {"name": PPU, "state": "chosen"}


def test_a_tenant_does_not_read_names_of_others_in_the_reasons() -> None:
    reason = "node rack-7 waits for other-team/eval-0"
    it = Explanation("job", "n", "a", Outlook.WAITS, "", alternatives=(AlternativeState("x", "fits", reason),))
    hidden = HiddenNames(frozenset({"other-team"}), frozenset(), frozenset({"rack-7"}), frozenset())
    (shown,) = for_tenant(it, hidden).alternatives
    assert shown.reason == "node (hidden) waits for 1 of another namespace"


def test_can_run_counts_the_quota_of_the_alternative_that_would_be_chosen() -> None:
    cluster = Cluster(*NODES, card_queue(quota={PPU: 8}))
    beside, jobs = submitted(manifests(card_job("a")), "default")
    (answer,) = can_run(cluster.simulation, beside, jobs)
    assert answer.verdict is Verdict.RUNS
    assert [(its.resource, its.asked, its.limit) for its in answer.amounts] == [(PPU, 8000.0, 8000.0)]
    assert answer.find_node == 2
    (document,) = run_document([answer])["items"]
    assert [each["state"] for each in document["alternatives"]] == ["does not fit", "chosen"]
