"""The web page in Chromium: its content, the keyboard, three sizes, light and dark."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from scheduler.observability.overview import Amount, NodeRow, Overview, QueueRow, RunningRow, WaitingRow
from tests.browser.chromium import chromium
from tests.browser.viewer import Viewer
from tests.overviews import example
from tests.page_server import page_server

SIZES = ((360, 740), (1024, 768), (1600, 900))
HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script> {} \u202e"
Scenario = Callable[[], Coroutine[Any, Any, None]]


def run(scenario: Scenario) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 300))


@asynccontextmanager
async def viewer(**options: Any) -> AsyncIterator[Viewer]:
    async with page_server(**options) as server, chromium() as tab:
        yield Viewer(tab, server)
        assert tab.errors == []


# --- what is seen -----------------------------------------------------------------------------------------------------
def test_queues_gangs_and_chips_are_shown() -> None:
    async def scenario() -> None:
        async with viewer() as v:
            await v.open()
            await v.show(example())

            assert await v.texts("#queue-tree > li > details > summary .name, #queue-tree > li > div .name") == [
                "closed-soon", "default", "root",
            ]  # fmt: skip
            assert "16 of 24" not in await v.text("#queue-tree")
            assert "24 of 24 used (100 %), 16 deserved" in await v.text("#queue-tree")
            assert "over what it deserves" in await v.text("#queue-tree")
            assert (await v.texts("#waiting-rows th span:first-child"))[0] == "chat-2"
            assert "nodes, 1 of 2" in await v.texts("#waiting-rows td:nth-child(4)")
            assert "0 / 6" in await v.texts("#waiting-rows td:nth-child(2)")
            assert any("Ascend910" in text for text in await v.texts("#waiting-rows td:last-child"))
            assert (await v.texts("#running-rows th span:first-child"))[-1] == "chat"
            assert (await v.texts("#running-rows td:nth-child(2)"))[-1] == "9 / 9"
            assert "8 huawei.com/Ascend910, 16 cpu" in await v.texts("#running-rows td:last-child")
            names = [text.split()[0] for text in await v.texts("#chips-rows th")]
            assert names[:2] == ["cpu-0", "npu-2"], "nodes with a condition or unusable chips come first"
            assert len(names) == 10
            assert await v.texts("#chips-rows .condition") == ["maintenance"]
            npu = "[...document.querySelectorAll('#chips-rows tr')].find(r => r.innerText.startsWith('npu-2'))"
            assert await v.tab.value(f"{npu}.querySelectorAll('.chip.u').length") == 2
            assert "2 unhealthy (chips 3, 5)" in await v.tab.value(f"{npu}.querySelector('.for-readers').textContent")

    run(scenario)


def test_the_summary_has_the_numbers_of_the_whole_cluster() -> None:
    async def scenario() -> None:
        async with viewer() as v:
            await v.open(width=1600)
            await v.show(example())

            tiles = [text.split("\n") for text in await v.texts("#summary-tiles > div")]
            assert tiles[:-1] == [
                ["Waiting gangs", "3"],
                ["Running gangs", "5"],
                ["Queues", "7"],
                ["huawei.com/Ascend910", "24 of 48", "1 degraded, 2 unhealthy"],
                ["nvidia.com/gpu", "9 of 24"],
                ["Nodes", "10", "1 maintenance"],
            ]
            assert tiles[-1][0] == "Last session"
            alerts = await v.texts("#summary-tiles > .alert dt")
            assert alerts == ["Waiting gangs", "huawei.com/Ascend910", "Nodes"]

    run(scenario)


def test_the_summary_of_a_tenant_has_what_the_tenant_may_see() -> None:
    async def scenario() -> None:
        async with viewer() as v:
            await v.open("/namespaces/research/pages/", "alice")
            await v.show(Overview(1.0, waiting=(WaitingRow("research", "one", "q", "nodes", 1, 1),)))
            assert [text.split("\n")[0] for text in await v.texts("#summary-tiles > div")] == [
                "Waiting gangs", "Running gangs", "Queues", "Last session",
            ]  # fmt: skip

    run(scenario)


def test_a_running_gang_whose_device_has_failed_comes_first_and_says_so() -> None:
    fault = "Ascend910-3 of node a is unhealthy (Pod old-w-0)"
    rows = (RunningRow("ns", "new", "q", since=9, uses="8 chip"), RunningRow("ns", "old", "q", since=1, alert=fault))

    async def scenario() -> None:
        async with viewer() as v:
            await v.open()
            await v.show(Overview(1.0, running=rows))
            assert await v.texts("#running-rows th span:first-child") == ["old", "new"]
            assert fault in (await v.texts("#running-rows td:last-child"))[0]
            await v.show(Overview(2.0, running=(rows[0], RunningRow("ns", "old", "q", since=1))))
            await v.tab.until("!document.getElementById('running-rows').innerText.includes('Ascend910-3')")
            assert await v.texts("#running-rows th span:first-child") == ["new", "old"]

    run(scenario)


def test_a_waiting_gang_shows_the_fault_of_a_device_of_its_running_pods_below_the_reason() -> None:
    fault = "GPU n-1 of node n is unhealthy (Pod p)"
    row = WaitingRow("ns", "one", "q", "nodes", 1, 1, reason="1 Insufficient cpu")

    async def scenario() -> None:
        async with viewer() as v:
            await v.open()
            await v.show(Overview(1.0, waiting=(replace(row, alert=fault),)))
            assert await v.texts("#waiting-rows td:last-child > span:not([hidden])") == [row.reason, f"⚠ {fault}"]
            await v.show(Overview(2.0, waiting=(row,)))
            await v.tab.until("!document.getElementById('waiting-rows').innerText.includes('GPU')")
            assert await v.texts("#waiting-rows td:last-child > span:not([hidden])") == [row.reason]

    run(scenario)


def test_running_gangs_are_filtered_and_go_when_they_end() -> None:
    rows = tuple(RunningRow("ns", f"g{i}", "q", since=i, pods=(2, 1, 3), uses="8 chip") for i in range(30))

    async def scenario() -> None:
        async with viewer() as v:
            await v.open()
            await v.show(Overview(1.0, running=rows))
            assert (await v.texts("#running-rows th span:first-child"))[:2] == ["g29", "g28"], "the newest first"
            assert (await v.texts("#running-rows td:nth-child(2)"))[0] == "2 / 1 of 3"
            assert len(await v.texts("#running-rows tr")) == 20 and "30 gangs" in await v.text("#running-count")
            await v.tab.value("document.getElementById('running-filter').focus()")
            await v.tab.write("g17")
            await v.tab.until("document.querySelectorAll('#running-rows tr').length === 1")
            await v.show(Overview(2.0, running=rows[:10]))
            await v.tab.until("document.querySelectorAll('#running-rows tr').length === 0")
            assert await v.text("#running-empty") == "No running gang matches the filter."

    run(scenario)


def test_nodes_with_a_condition_can_be_selected() -> None:
    nodes = (
        NodeRow("n1", "chip", "f", (1, 0, 0, 0, 0)),
        NodeRow("n2", "chip", "f", (1, 0, 0, 0, 0), conditions=("cordoned", "not ready")),
        NodeRow("n3", conditions=("maintenance",)),
    )

    async def scenario() -> None:
        async with viewer() as v:
            await v.open()
            await v.show(Overview(1.0, nodes=nodes))
            assert [text.split()[0] for text in await v.texts("#chips-rows th")] == ["n2", "n3", "n1"]
            await v.tab.value("document.getElementById('chips-conditions').click()")
            await v.tab.until("document.querySelectorAll('#chips-rows tr').length === 2")
            assert await v.texts("#chips-rows .condition") == ["cordoned, not ready", "maintenance"]

    run(scenario)


@pytest.mark.parametrize("width", [1600, 1440])
def test_a_wide_window_shows_gangs_and_queues_beside_each_other(width: int) -> None:
    async def scenario() -> None:
        async with viewer() as v:
            await v.open(width=width)
            await v.show(example())
            box = "document.getElementById('{}').getBoundingClientRect()"
            waiting, queues = box.format("waiting"), box.format("queues")
            assert await v.tab.value(f"{waiting}.top === {queues}.top && {waiting}.right < {queues}.left")
            assert await v.tab.value(f"{waiting}.width + {queues}.width > 0.9 * innerWidth")

    run(scenario)


def test_queues_show_what_they_request_and_what_they_have_borrowed_and_lent() -> None:
    async def scenario() -> None:
        cards = (
            Amount("NVIDIA-H200", "6", "", "4", 1.5, borrowed="2"),
            Amount("NVIDIA-H800", "0", "", "4", 0.0, lent="1"),
            Amount("cpu", "16", "", "4", 0.25, counted="1"),
            Amount("NVIDIA-L40S", "3", "", "3", 1.0, inqueue="1", requested="10"),
        )
        async with viewer() as v:
            await v.open()
            await v.show(Overview(5.0, (QueueRow("a", "", "Open", 1, amounts=cards),)))
            text = await v.text("#queue-tree")
            assert "6 of 4 used (150 %), 2 borrowed" in text
            assert "0 of 4 used (0 %), 1 lent" in text
            assert "16 used, 1 of 4 counted (25 %)" in text
            assert "3 of 3 used (100 %), 1 inqueue, 10 requested" in text
            assert "over its capability" not in text

    run(scenario)


def test_changes_are_shown_without_reloading_and_leave_the_rest_as_it_is() -> None:
    async def scenario() -> None:
        first = Overview(
            100.0,
            (QueueRow("a", "", "Open", 1, 1, 1, (Amount("cpu", "1", "", "4", 0.25),)), QueueRow("b", "a", "Open", 1)),
            (WaitingRow("ns", "one", "a", "nodes", 1, 2), WaitingRow("ns", "two", "a", "nodes", 2, 2)),
        )
        second = Overview(
            101.0,
            (QueueRow("a", "", "Open", 1, 2, 0, (Amount("cpu", "3", "", "4", 0.75),)), QueueRow("b", "a", "Closed", 1)),
            (WaitingRow("ns", "two", "a", "nodes", 1, 1, reason="none"),),
        )
        async with viewer() as v:
            await v.open()
            await v.show(first)
            assert "1 of 4 used (25 %)" in await v.text("#queue-tree")
            await v.tab.value("document.querySelector('#queue-tree summary').focus()")
            await v.tab.press("Enter")
            await v.show(second)

            assert await v.tab.value("document.querySelector('#queue-tree details').open") is False
            assert await v.tab.value("document.activeElement.tagName") == "SUMMARY"
            await v.tab.press("Space")
            await v.tab.until("document.querySelector('#queue-tree details').open")
            assert "3 of 4 used (75 %)" in await v.text("#queue-tree")
            await v.tab.until("document.querySelector('#queue-tree .below').innerText.includes('Closed')")
            assert await v.texts("#waiting-rows th span:first-child") == ["two"]
            assert await v.texts("#waiting-rows td:nth-child(4)") == ["nodes, 1 of 1"]

    run(scenario)


def test_a_queue_that_moves_is_shown_below_its_new_parent_and_not_below_the_old_one() -> None:
    def below(parent: str, at: float) -> Overview:
        return Overview(
            at, (*map(QueueRow, ("a", "b", "c")), *(QueueRow(f"in-{x}", x) for x in "abc"), QueueRow("m", parent))
        )

    async def scenario() -> None:
        async with viewer() as v:
            await v.open()
            for at, parent in enumerate(("b", "a", "c", "", "b", "gone", "m"), 1):
                await v.show(below(parent, float(at)))
                names = await v.texts("#queue-tree .name")
                assert sorted(names) == ["a", "b", "c", "in-a", "in-b", "in-c", "m"], parent
                above = "[...document.querySelectorAll('#queue-tree .name')].find(e => e.textContent === 'm')"
                found = await v.tab.value(
                    f"{above}.closest('ul').closest('li')?.querySelector('.name').textContent ?? ''"
                )
                assert found == (parent if parent in ("a", "b", "c") else "")

    run(scenario)


def test_names_and_reasons_are_text_whatever_they_contain() -> None:
    async def scenario() -> None:
        hostile = Amount(HOSTILE, HOSTILE, HOSTILE, HOSTILE, 2.0, borrowed=HOSTILE, lent=HOSTILE)
        async with viewer() as v:
            await v.open()
            await v.show(
                Overview(
                    5.0,
                    (QueueRow(HOSTILE, "", HOSTILE, 1, amounts=(hostile,)),),
                    (WaitingRow(HOSTILE, HOSTILE, HOSTILE, "nodes", 1, 1, HOSTILE, 1, HOSTILE),),
                    (NodeRow(HOSTILE, HOSTILE, "fdaun.", (1, 1, 1, 1, 1), True), NodeRow("__proto__", "constructor")),
                )
            )
            assert await v.tab.value("document.querySelectorAll('main img, main script').length") == 0
            assert await v.tab.value("document.title") == "volcano-py · whole cluster"
            assert HOSTILE in await v.tab.value("document.querySelector('#waiting-rows td:last-child').textContent")
            assert len(await v.texts("#chips-rows tr")) == 2

    run(scenario)


def test_a_tenant_chooses_the_namespace_and_sees_no_nodes() -> None:
    async def scenario() -> None:
        mine = Overview(
            7.0,
            (QueueRow("shared", "top", "Open", 1), QueueRow("top", "", "Open", 1), QueueRow("secret", "", "Open", 1)),
            (WaitingRow("research", "train", "shared", "nodes", 1, 1),),
            (NodeRow("secret-node", "chip", "f", (1,)),),
            {"research": ("shared",)},
        )
        async with viewer() as v:
            await v.open(token="alice")
            await v.tab.until("!document.getElementById('problem').hidden")
            assert "alice" in await v.text("#problem") and "cannot watch" in await v.text("#problem")
            v.tab.errors.clear()  # the browser logs the refusal
            await v.tab.value("document.getElementById('namespace').focus()")
            await v.tab.write("research")
            await v.tab.press("Enter")
            await v.show(mine)

            assert (await v.tab.value("location.pathname")).endswith("/namespaces/research/pages/")
            assert await v.texts("#waiting-rows th span:first-child") == ["train"]
            page = await v.tab.value("document.documentElement.innerHTML")
            assert "secret" not in page and "users who may list nodes" in page
            assert "above your queues" in await v.text("#queue-tree")
            await v.tab.value("history.back()")
            await v.tab.until("document.getElementById('connection-text').textContent === 'Not allowed'")
            assert await v.texts("#waiting-rows tr") == []
            v.tab.errors.clear()

    run(scenario)


def test_the_page_connects_again_after_the_connection_is_lost() -> None:
    async def scenario() -> None:
        async with viewer() as v:
            await v.open()
            await v.show(Overview(1.0, (QueueRow("a", "", "Open", 1),)))
            await v.server.stop()
            await v.tab.until("document.getElementById('connection').dataset.state === 'lost'")
            assert await v.texts("#queue-tree .name") == ["a"]
            await v.server.start()
            await v.show(Overview(2.0, (QueueRow("b", "", "Open", 1),)))
            assert await v.texts("#queue-tree .name") == ["b"]
            v.tab.errors.clear()  # the browser logs the attempts

    run(scenario)


# --- large clusters ---------------------------------------------------------------------------------------------------
def test_ten_thousand_nodes_and_two_thousand_gangs_are_shown_in_pages_with_a_filter() -> None:
    nodes = tuple(
        NodeRow(f"node-{i:05}", "huawei.com/Ascend910", "a" * 8, (0, 0, 8, 0, 0), True) for i in range(10_200)
    )
    sick = NodeRow("node-07777", "huawei.com/Ascend910", "aaauaaaa", (0, 0, 7, 1, 0), True)
    waiting = tuple(WaitingRow("ns", f"gang-{i}", "q", "nodes", i + 1, 2500, reason="none") for i in range(2500))
    amounts = (Amount("cpu", "1"),)
    queues = tuple(QueueRow(f"queue-{i}", "queue-0" if i else "", "Open", 1, amounts=amounts) for i in range(1000))
    large = Overview(1.0, queues, waiting, (sick, *(row for row in nodes if row.node != sick.node)))

    async def scenario() -> None:
        async with viewer() as v:
            await v.open()
            await v.show(large)
            assert len(await v.texts("#queue-tree .name")) == 1000
            assert len(await v.texts("#chips-rows tr")) == 100 and len(await v.texts("#waiting-rows tr")) == 50
            assert "10,000 nodes; 200 more are not sent" in await v.text("#chips-count")
            assert "2,000 gangs; 500 more are further back" in await v.text("#waiting-count")
            assert await v.text("#chips-pages span") == "Page 1 of 100"

            await v.tab.value("document.getElementById('chips-state').value = 'unhealthy'")
            await v.tab.value("document.getElementById('chips-state').dispatchEvent(new Event('change'))")
            assert [text.split()[0] for text in await v.texts("#chips-rows tr")] == ["node-07777"]
            await v.tab.value("document.getElementById('chips-state').value = ''")
            await v.tab.value("document.getElementById('chips-filter').focus()")
            await v.tab.write("node-0123")
            await v.tab.until("document.querySelectorAll('#chips-rows tr').length === 10")
            await v.tab.value("document.getElementById('waiting-filter').focus()")
            await v.tab.write("gang-1999")
            await v.tab.until("document.querySelectorAll('#waiting-rows tr').length === 1")

            changed = msgspec.structs.replace(sick, chips="a" * 8, counts=(0, 0, 8, 0, 0))
            await v.show(msgspec.structs.replace(large, at=2.0, nodes=(changed, *large.nodes[1:])))
            await v.tab.value("document.getElementById('chips-filter').value = 'node-07777'")
            await v.tab.value("document.getElementById('chips-filter').dispatchEvent(new Event('input'))")
            await v.tab.until("document.querySelectorAll('#chips-rows tr').length === 1")
            assert "8 allocated" in await v.tab.value("document.getElementById('chips-rows').textContent")
            assert "unhealthy" not in await v.tab.value("document.getElementById('chips-rows').textContent")

    run(scenario)


def test_pages_are_turned_with_the_keyboard_and_the_focus_stays() -> None:
    nodes = tuple(NodeRow(f"n{i}", "chip", "f", (1, 0, 0, 0, 0)) for i in range(150))

    async def scenario() -> None:
        async with viewer() as v:
            await v.open()
            await v.show(Overview(1.0, nodes=nodes))
            await v.tab.value("document.querySelector('#chips-pages button:last-child').focus()")
            await v.tab.press("Enter")
            await v.tab.until("document.querySelectorAll('#chips-rows tr').length === 50")
            assert await v.tab.value("document.activeElement.textContent") == "Next"
            assert await v.tab.value("document.activeElement.getAttribute('aria-disabled')") == "true"
            await v.tab.press("Enter")
            assert await v.text("#chips-pages span") == "Page 2 of 2"

    run(scenario)


# --- for all readers --------------------------------------------------------------------------------------------------
def test_the_keyboard_reaches_every_control_and_the_focus_is_seen() -> None:
    async def scenario() -> None:
        async with viewer() as v:
            await v.open()
            await v.show(example())
            await v.tab.value("document.body.tabIndex = -1; document.body.focus()")
            reached = []
            for _ in range(40):
                await v.tab.press("Tab")
                reached.append(
                    await v.tab.value(
                        "(e => [e.id || e.getAttribute('href') || e.tagName, getComputedStyle(e).outlineStyle])"
                        "(document.activeElement)"
                    )
                )
                if reached[-1][0] == "chips-map":
                    break
            names = [name for name, _ in reached]
            assert names[0] == "#main"
            assert names.index("namespace") < names.index("theme") < names.index("#waiting") < names.index("#queues")
            assert names.index("#queues") < names.index("waiting-filter") < names.index("running-filter")
            assert names.index("running-filter") < names.index("SUMMARY") < names.index("chips-filter")
            assert names[-1] == "chips-map"
            assert {outline for _, outline in reached} == {"solid"}

    run(scenario)


def test_the_skip_link_leads_to_the_content() -> None:
    async def scenario() -> None:
        async with viewer() as v:
            await v.open()
            await v.show(example())
            await v.tab.value("document.activeElement.blur(); document.querySelector('.skip').focus()")
            assert await v.tab.value("document.querySelector('.skip').getBoundingClientRect().left") >= 0
            await v.tab.press("Enter")
            await v.tab.until("document.activeElement.id === 'main'")

    run(scenario)


def test_the_number_of_waiting_gangs_is_announced_once_and_not_each_change() -> None:
    async def scenario() -> None:
        gangs = tuple(WaitingRow("ns", f"g{i}", "q", "nodes", i + 1, 9) for i in range(9))
        async with viewer() as v:
            await v.open()
            await v.show(Overview(1.0, waiting=gangs[:1]))
            await v.tab.value("announced.at = Date.now() - ANNOUNCE + 1500; heard = []")
            await v.tab.value(
                "new MutationObserver(() => heard.push(document.getElementById('announcement').textContent))"
                ".observe(document.getElementById('announcement'), {childList: true, subtree: true})"
            )
            for number in range(2, 6):
                await v.show(Overview(float(number), waiting=gangs[:number]))
            await v.tab.until("heard.at(-1)?.startsWith('5 gangs wait, before it was ')")
            assert await v.tab.value("heard.length") <= 2
            assert await v.tab.value("document.getElementById('announcement').getAttribute('aria-live')") == "polite"

    run(scenario)


RULES = (Path(__file__).parent / "accessibility.js").read_text(encoding="utf-8")
"""Returns the defects of a page as a list of texts: names of controls, headings, contrast, sizes."""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width, height", SIZES)
def test_in_every_size_and_scheme_the_page_is_readable(width: int, height: int, dark: bool, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with viewer() as v:
            await v.open(width=width, height=height, dark=dark)
            await v.show(example(time.time()))

            assert await v.tab.value("document.documentElement.scrollWidth <= innerWidth")
            back = await v.tab.value("getComputedStyle(document.body).backgroundColor")
            assert (back == "rgb(20, 24, 29)") == dark
            assert await v.tab.value(RULES) == []
            file = tmp_path / "page.png"
            await v.tab.screenshot(file)
            assert file.stat().st_size > 10_000

    run(scenario)


@pytest.mark.parametrize("theme, expected", [("dark", "rgb(20, 24, 29)"), ("light", "rgb(255, 255, 255)")])
def test_the_chosen_colours_win_over_those_of_the_system_and_are_remembered(theme: str, expected: str) -> None:
    async def scenario() -> None:
        async with viewer() as v:
            for _ in range(2):
                await v.open(dark=theme == "light")
                await v.tab.value(f"document.getElementById('theme').value = '{theme}'")
                await v.tab.value("document.getElementById('theme').dispatchEvent(new Event('change'))")
                assert await v.tab.value("getComputedStyle(document.body).backgroundColor") == expected
                await v.show(example())
                assert await v.tab.value(RULES) == []
            await v.tab.open(v.server.url(), dark=theme == "light")
            assert await v.tab.value("document.getElementById('theme').value") == theme
            assert await v.tab.value("getComputedStyle(document.body).backgroundColor") == expected
            await v.tab.until("!document.getElementById('login').hidden")
            v.tab.errors.clear()

    run(scenario)
