"""The page of a report, in a browser: what it shows is what the JSON says, and what a trace holds stays data.

Chromium is Debian's; where it or Playwright is not installed, what needs no browser is tested alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import Rows, annotation, call, kernel, launch, memcpy, op, step, write
from test_reports import ABOUT, HOSTILE, answers, failed, reported

from pytest_kernelprof import Profile, load_trace
from pytest_kernelprof.cli import main
from pytest_kernelprof.documents import problem
from pytest_kernelprof.report.html import html_page
from pytest_kernelprof.reporting import document, profile_values

H200 = Path(__file__).parent / "data/traces_h200"
MARKUP = [
    *HOSTILE,
    "]]>",
    "--> <!--",
    "\"double\" 'single'",
    "<img src=x onerror=window.hacked=1>",
    "</script><script>",
]
SIZES = [(1400, 1000), (700, 900)]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


def page_of(folder: Path, *arguments: str) -> tuple[Path, dict[str, Any]]:
    """Write the report of traces as a page, and return it with what the JSON says."""
    file = folder / "report.html"
    report = reported(folder, arguments, "-o", str(file))
    return file, report


def attention(folder: Path) -> tuple[Path, dict[str, Any]]:
    names = ("attn_naive", "attn_inplace", "attn_sdpa_math", "misc_train", "misc_graph_replay", "misc_empty_step")
    return page_of(folder, *(str(H200 / f"{name}.json.gz") for name in names), "--no-memcpy", "--max-kernels", "5")


def hostile(folder: Path) -> tuple[Path, dict[str, Any]]:
    rows: list[Rows] = [step(0, 0, 2_000)]
    for number, name in enumerate(MARKUP):
        at = 10 + 100 * number
        rows += [annotation(name, at, 90), op(name, at + 1, 80), launch(at + 5, number + 1, name=name)]
        rows += [call("cudaMemcpyAsync", at + 20, 500 + number), memcpy(at + 25, 500 + number)]
    return page_of(folder, str(write(folder / "<b>&'\u202e.json", *rows)), "--no-memcpy")


# Without a browser


def test_the_page_is_one_ascii_file_that_loads_nothing(tmp_path: Path) -> None:
    file, report = hostile(tmp_path)
    text = file.read_text(encoding="ascii")

    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    shown = json.loads(data)
    for one in (shown, report):
        del one["provenance"]["date"]
    assert shown == report
    assert not set("<>&") & set(data)
    page = text.replace(data, "")
    assert not re.findall(r"<(?:link|img|iframe|object|embed|base|form)\b|\b(?:src|href)=|@import|url\(", page)
    assert text.count("<script") == 2


def test_the_policy_admits_the_script_of_the_page_and_nothing_else(tmp_path: Path) -> None:
    text = attention(tmp_path)[0].read_text()

    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    for tag in ("script", "style"):
        (body,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy


def many(folder: Path, profiles: int = 50, kernels: int = 200) -> Path:
    """Write traces of three steps with so many kernels each, and two ops around every launch."""
    names = [
        json.dumps(number)[0] + name for number, name in enumerate(("gemm_kernel<float, 128>", "softmax_warp(int)"))
    ]
    for profile in range(profiles):
        rows: list[Rows] = []
        for number in range(3):
            rows.append(step(number, number * 10_000, 9_000))
            for index in range(kernels):
                at = number * 10_000 + index * 40 + 5.123
                rows += [op("aten::linear", at, 30), op("aten::addmm", at + 2, 25)]
                rows += launch(at + 5, number * kernels + index + 1, name=f"{names[index % 2]}_{index % 20}", dur=17.25)
        write(folder / f"trace_{profile}.json", *rows)
    return folder


def test_fifty_profiles_of_two_hundred_kernels_stay_below_five_megabytes(tmp_path: Path) -> None:
    many(tmp_path)

    assert (
        main(["report", str(tmp_path / "trace_*.json"), "-o", str(tmp_path / "report.html"), "--max-kernels", "200"])
        == 0
    )

    assert (tmp_path / "report.html").stat().st_size < 5_000_000


def test_a_report_of_no_test_is_a_page(tmp_path: Path) -> None:
    report = reported(tmp_path, [str(H200 / "attn_naive.json.gz")])

    assert "kernelprof: nothing asked" in html_page(report)


# In a browser

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Open a file; a message of the console, an error, a dialog or a request to anywhere fails the test."""
    contexts, complaints = [], []

    def open_page(file: Path, size: tuple[int, int] = SIZES[0], **options: Any) -> Any:
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.extend([dialog.message, str(dialog.dismiss())]))
        page.on("request", lambda request: complaints.extend(strange(request.url)))
        page.goto(file.as_uri())
        page.wait_for_selector("#tests")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def strange(url: str) -> list[str]:
    """Return an address that is neither the file nor made by it."""
    return [] if url.startswith(("file:", "blob:")) else [url]


def cells(page: Any, selector: str) -> list[list[str]]:
    found: list[list[str]] = page.eval_on_selector_all(
        f"{selector} tbody tr:not(.hidden)", "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    return found


@pytest.mark.parametrize("size", SIZES, ids=["wide", "narrow"])
def test_the_overview_says_what_the_json_says(open_page: Open, tmp_path: Path, size: tuple[int, int]) -> None:
    file, report = attention(tmp_path)

    page = open_page(file, size)

    profiles = {one["id"]: one for one in report["profiles"]}
    rows = cells(page, "#tests")
    assert [row[:2] for row in rows] == [[Path(test["id"]).name, test["verdict"]] for test in report["tests"]]
    for row, test in zip(rows, report["tests"], strict=True):
        profile = profiles[test["profiles"][0]]
        told = [profile[name] for name in ("kernels", "memcpys", "memsets", "launches", "host_syncs", "ops")]
        assert row[3:9] == ["not measured" if number is None else str(number) for number in told]
    assert page.text_content("h1") == f"kernelprof {report['verdict']}"
    # Nothing is wider than the window but what scrolls by itself.
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("size", SIZES, ids=["wide", "narrow"])
def test_a_click_opens_a_test_with_its_checks_and_counts(
    open_page: Open, tmp_path: Path, size: tuple[int, int]
) -> None:
    file, report = attention(tmp_path)
    page = open_page(file, size)

    for number, test in enumerate(report["tests"]):
        page.locator("#tests tbody tr").nth(number).click()
        assert test["id"] in page.text_content("#detail h2")
        profile = next(one for one in report["profiles"] if one["id"] == test["profiles"][0])
        cards = page.eval_on_selector_all("#detail .card", "cards => cards.map(card => card.innerText.split('\\n'))")
        told = {name: value for value, name in cards}
        assert told["kernels"] == ("not measured" if profile["kernels"] is None else str(profile["kernels"]))
        assert told["ops"] == ("not measured" if profile["ops"] is None else str(profile["ops"]))
        # Each event is counted once in the table of kinds; ops stand there if there is nothing else.
        names: tuple[str, ...] = ("kernels", "memcpys", "memsets", "host_syncs")
        if not any(step[name] and step[name]["kinds"] for step in profile["details"]["steps"] for name in names):
            names = (*names, "calls", "ops")
        events = sum(len(step[name]["kinds"]) for step in profile["details"]["steps"] for name in names if step[name])
        assert sum(int(row[3]) for row in cells(page, ".kinds")) == events
        for check in test["checks"]:
            assert check["assertion"] in page.text_content("#detail")
            if check["message"]:
                assert check["message"] in page.eval_on_selector_all(
                    "#detail pre", "all => all.map(one => one.textContent)"
                )


def test_a_click_on_a_header_sorts_by_number_and_back(open_page: Open, tmp_path: Path) -> None:
    file, report = attention(tmp_path)
    page = open_page(file)
    header = page.locator("#tests th button", has_text="kernels")

    header.click()
    down = [row[3] for row in cells(page, "#tests")]
    assert page.locator("#tests th", has_text="kernels").get_attribute("aria-sort") == "descending"
    header.press("Enter")
    up = [row[3] for row in cells(page, "#tests")]

    known = sorted((one["kernels"] for one in report["profiles"] if one["kernels"] is not None), reverse=True)
    assert down == [*map(str, known), "not measured"]
    assert up == [*map(str, reversed(known)), "not measured"]


def view(page: Any) -> tuple[float, float]:
    data = page.eval_on_selector("canvas", "one => [Number(one.dataset.from), Number(one.dataset.to)]")
    return data[0], data[1]


@pytest.mark.parametrize("size", SIZES, ids=["wide", "narrow"])
def test_the_timeline_zooms_pans_and_tells_what_is_clicked(
    open_page: Open, tmp_path: Path, size: tuple[int, int]
) -> None:
    file, report = attention(tmp_path)
    page = open_page(file, size)
    page.locator("#tests tbody tr", has_text="attn_naive").click()
    canvas = page.locator("canvas")
    canvas.scroll_into_view_if_needed()
    whole = view(page)

    page.get_by_role("button", name="zoom in").click()
    closer = view(page)
    assert closer[1] - closer[0] < 0.7 * (whole[1] - whole[0])
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    page.mouse.wheel(0, -200)
    assert view(page)[1] - view(page)[0] < closer[1] - closer[0]
    before = view(page)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 - 80, box["y"] + 60, steps=4)
    page.mouse.up()
    assert view(page)[0] > before[0]
    page.get_by_role("button", name="fit").click()
    assert view(page) == whole

    canvas.focus()
    for key in ("ArrowRight", "+", "-", "0"):
        page.keyboard.press(key)
    assert view(page) == whole
    names = set()
    details = report["profiles"][[one["owner"] for one in report["profiles"]].index(str(H200 / "attn_naive.json.gz"))][
        "details"
    ]
    for _ in range(60):
        page.keyboard.press("n")
        names.add(page.text_content("#event-name"))
    assert names <= {kind["name"] for kinds in details["kinds"].values() for kind in kinds}
    assert len(names) > 20


def test_what_a_failed_check_is_about_is_found_and_can_be_clicked(open_page: Open, tmp_path: Path) -> None:
    file, _ = attention(tmp_path)
    page = open_page(file)
    page.locator("#tests tbody tr", has_text="attn_naive").click()

    page.click("#offending")

    assert page.text_content("#event-name") == "Memcpy DtoD (Device -> Device)"
    told = page.text_content(".event")
    assert "memory copy, of a failed check" in told
    assert "256.0 MiB" in told
    assert "aten::masked_fill > aten::clone > aten::copy_" in told
    assert "cudaMemcpyAsync" in told
    x, y = page.eval_on_selector("canvas", "one => [Number(one.dataset.selectedX), Number(one.dataset.selectedY)]")
    page.keyboard.press("Escape")
    page.locator("canvas").press("Escape")
    assert page.locator("#event-name").count() == 0
    page.locator("canvas").click(position={"x": x, "y": y})
    assert page.text_content("#event-name") == "Memcpy DtoD (Device -> Device)"


def test_names_are_found_and_lead_to_the_timeline(open_page: Open, tmp_path: Path) -> None:
    file, _ = attention(tmp_path)
    page = open_page(file)
    page.locator("#tests tbody tr", has_text="attn_naive").click()
    every = len(cells(page, ".kinds"))

    page.fill("#detail .search", "softMAX_warp")
    (row,) = cells(page, ".kinds")
    page.locator(".kinds tbody tr:not(.hidden)").click()

    assert "softmax" in row[0]
    assert page.text_content("#event-name") == row[0]
    page.fill("#detail .search", "")
    assert len(cells(page, ".kinds")) == every


@pytest.mark.parametrize("size", SIZES, ids=["wide", "narrow"])
def test_hostile_names_are_shown_and_never_run(open_page: Open, tmp_path: Path, size: tuple[int, int]) -> None:
    file, report = hostile(tmp_path)
    page = open_page(file, size)

    assert page.evaluate("window.hacked") is None
    names = [row[0] for row in cells(page, ".kinds")]
    assert "<script>alert(1)</script> & &lt; @everyone #1" in names
    assert "<img src=x onerror=window.hacked=1>" in names
    assert "]]>" in names
    assert "\\u{202e}right to left\\u{202c}" in names
    assert "x" * 10_000 in names
    assert page.evaluate("document.querySelectorAll('img, b ~ script, iframe').length") == 0
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    canvas = page.locator("canvas")
    canvas.focus()
    for _ in range(4 * len(MARKUP)):
        page.keyboard.press("n")
    page.get_by_role("button", name="zoom in").click()
    assert page.evaluate("window.hacked") is None
    assert not any(ord(one) in (0x1B, 0x202E) for one in page.text_content("body"))
    assert len(report["profiles"][0]["details"]["kinds"]["kernels"]) == len(MARKUP)


def test_the_policy_is_kept_by_the_browser(browser: Any, tmp_path: Path) -> None:
    page = browser.new_page()
    page.goto(attention(tmp_path)[0].as_uri())

    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.hacked = 1'}))"
    )
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("fetch('https://example.org').then(() => 'loaded', () => 'refused')") == "refused"
    page.close()


def test_a_guess_and_what_changed_against_the_ledger_are_tables(open_page: Open, tmp_path: Path) -> None:
    naive = H200 / "attn_naive.json.gz"
    checks = answers(naive, lambda profile: profile.assert_guess(gemm=2, elementwise=2, softmax=1, memcpy=0))
    change = {
        "class": "memcpys",
        "kind": "more",
        "words": "+1 Memcpy DtoD",
        "before": [],
        "after": [{"count": 1, "words": "DtoD"}],
    }
    checks += [
        {**checks[0], "assertion": "assert_matches_ledger", "guess": [], "changes": [change], "message": "differs"}
    ]
    checks += answers(naive, lambda profile: profile.assert_guess(gemm=2, elementwise=2, softmax=1, memcpy=1))
    profile = profile_values(load_trace(naive), owner="t", name="1", detailed=True)
    test = failed(tmp_path, "t", "2 of 3 checks did not pass\n\nthe guess is wrong", checks=checks, profiles=[profile])
    report = document([{**test, "id": "t"}], about=ABOUT)
    assert problem(report, "report-1") is None
    (tmp_path / "report.html").write_text(html_page(report))
    page = open_page(tmp_path / "report.html")

    shown = page.eval_on_selector_all(
        "#detail table", "all => all.map(one => one.innerText.replaceAll('\\t', ' ').split('\\n'))"
    )
    guesses = [one for one in shown if one[0].startswith("role guess seen")]
    assert "memcpy none 1 fail: wrong" in guesses[0]
    assert any(line.startswith("memcpy 1 1") for line in guesses[1])
    assert ["memcpys +1 Memcpy DtoD  1 x DtoD"] in [one[1:] for one in shown]


def test_light_and_dark_follow_the_system_and_a_button(open_page: Open, tmp_path: Path) -> None:
    file, _ = attention(tmp_path)
    paper = "getComputedStyle(document.body).backgroundColor"
    light, dark = (open_page(file, color_scheme=scheme) for scheme in ("light", "dark"))

    assert light.evaluate(paper) != dark.evaluate(paper)
    was = light.evaluate(paper)
    light.get_by_role("button", name="light / dark").click()
    assert light.evaluate(paper) == dark.evaluate(paper) != was


def test_the_trace_that_is_saved_is_one_and_has_the_same_kernels(open_page: Open, tmp_path: Path) -> None:
    file, report = attention(tmp_path)
    page = open_page(file)
    page.locator("#tests tbody tr", has_text="misc_train").click()

    with page.expect_download() as download:
        page.get_by_role("button", name="save as a trace").click()

    rows = json.loads(Path(download.value.path()).read_text())["traceEvents"]
    profile = next(one for one in report["profiles"] if "misc_train" in one["owner"])
    steps = profile["details"]["steps"]
    launches = sum(len(step[name]["kinds"]) for step in steps for name in ("kernels", "memcpys", "memsets"))
    assert sum(str(row["pid"]).startswith("GPU") and row["ph"] == "X" for row in rows) == launches
    assert sum(row["ph"] == "f" for row in rows) == sum(row["ph"] == "s" for row in rows) == launches
    live = Profile(load_trace(H200 / "misc_train.json.gz"))
    assert sorted({row["name"] for row in rows if "role" in row.get("args", {})}) == sorted(
        {one.name for one in live.kernels}
    )


PERFETTO = """<!DOCTYPE html><title>stand-in</title><script>
addEventListener("message", (event) => {
    if (event.data === "PING") event.source.postMessage("PONG", "*");
    else if (event.data.perfetto) document.title = JSON.parse(new TextDecoder().decode(event.data.perfetto.buffer)).traceEvents.length;
});
</script>"""


def test_perfetto_is_handed_the_trace_by_the_browser(open_page: Open, tmp_path: Path) -> None:
    """Its page is a stand-in that answers as its documentation says."""
    file, _ = attention(tmp_path)
    page = open_page(file)
    page.context.route(
        "https://ui.perfetto.dev/**", lambda route: route.fulfill(body=PERFETTO, content_type="text/html")
    )

    with page.context.expect_page() as opened:
        page.get_by_role("button", name="open in Perfetto").click()

    opened.value.wait_for_function("document.title !== 'stand-in'")
    assert int(opened.value.title()) > 100


def test_nobody_but_perfetto_is_handed_the_trace(open_page: Open, tmp_path: Path) -> None:
    page = open_page(attention(tmp_path)[0])
    page.evaluate(
        "() => { window.sent = []; window.open = () => ({ postMessage: (what) => window.sent.push(what) }); }"
    )

    page.get_by_role("button", name="open in Perfetto").click()
    page.evaluate("dispatchEvent(new MessageEvent('message', {origin: 'https://evil.example', data: 'PONG'}))")
    page.wait_for_timeout(200)

    assert page.evaluate("window.sent.length > 0 && window.sent.every(what => what === 'PING')")


WHOLE_NAMES = """rows => rows.map(row => row.cells[0])
    .filter(cell => cell.scrollWidth <= cell.clientWidth && cell.getBoundingClientRect().right < innerWidth)
    .map(cell => cell.innerText)"""
"""Names of the rows in which nothing of the name is hidden."""


def test_each_profile_of_a_test_has_a_row_with_its_own_name_and_numbers(open_page: Open, tmp_path: Path) -> None:
    name = "test_compare.py::test_c7_the_place_of_cudnn_among_the_fused_backends_of_attention[4096]"
    made = [
        profile_values(load_trace(H200 / f"{trace}.json.gz"), owner=name, name=label, detailed=True)
        for trace, label in (("attn_sdpa_flash", "fused"), ("attn_naive", "naive"))
    ]
    test = {**failed(tmp_path, name, "1 memory copy a step, expected none", profiles=made), "id": name}
    long = [f"test_long.py::test_{'of_many_words_' * 40}[{one}]" for one in ("bf16", "fp16")]
    report = document([test, *(failed(tmp_path, one, "y" * 500, profiles=[]) for one in long)], about=ABOUT)
    (tmp_path / "report.html").write_text(html_page(report))

    page = open_page(tmp_path / "report.html")

    fused, naive, *others = cells(page, "#tests")
    assert (fused[0], fused[3], fused[4]) == (f"{name} (fused)", "1", "0")
    assert (naive[0], naive[3], naive[4]) == (f"{name} (naive)", "5", "1")
    assert page.locator("canvas").count() == 2
    for one, row in zip(long, others, strict=True):
        first, _, last = row[0].partition(" ... ")
        assert len(row[0]) == 240
        assert one.startswith(first)
        assert one.endswith(last)
    for width in (1400, 1000):
        page.set_viewport_size({"width": width, "height": 1000})
        assert page.eval_on_selector_all("#tests tbody tr", WHOLE_NAMES) == [
            fused[0],
            naive[0],
            *(row[0] for row in others),
        ]
    assert len({row[0] for row in others}) == 2


def test_a_search_stays_while_a_table_is_sorted_and_finds_ops(open_page: Open, tmp_path: Path) -> None:
    page = open_page(attention(tmp_path)[0])
    page.locator("#tests tbody tr", has_text="misc_train").click()

    page.fill("#detail .search", "gemm")
    found = sorted(row[0] for row in cells(page, ".kinds"))
    page.locator(".kinds th button", has_text="count").click()
    assert sorted(row[0] for row in cells(page, ".kinds")) == found
    for wanted in ("aten::view", "cudaLaunchKernel"):
        page.fill("#detail .search", wanted)
        assert wanted in [row[0] for row in cells(page, ".kinds")]

    page.fill("main > p .search", "naive")
    assert [row[0] for row in cells(page, "#tests")] == ["attn_naive.json.gz"]


def test_a_click_leads_to_the_details_and_the_row_stays_marked(open_page: Open, tmp_path: Path) -> None:
    page = open_page(attention(tmp_path)[0], (1000, 500))

    page.locator("#tests tbody tr", has_text="attn_inplace").press("Enter")

    top = page.eval_on_selector("#detail h2", "one => one.getBoundingClientRect().top")
    assert -1 <= top < 200
    assert page.evaluate("document.activeElement.tagName") == "H2"
    page.locator("#tests th button", has_text="ops").click()
    assert page.locator("#tests tr.open").text_content().startswith("attn_inplace")


def test_many_threads_and_streams_scroll_in_a_picture_of_window_height(open_page: Open, tmp_path: Path) -> None:
    rows: list[Rows] = [step(0, 0, 5_000), annotation("outer", 1, 4_000), annotation("inner", 2, 3_000)]
    for number in range(40):
        rows += [op("aten::mm", 10 + number, 50, tid=1000 + number)]
        rows += launch(15 + number, number + 1, gpu_ts=100 + number, dur=40, tid=1000 + number, stream=number)
    for number in range(300):  # They overlap, so that each needs a row of its own.
        rows += launch(1000 + number, 100 + number, gpu_ts=2000 + number, dur=2000, stream=99)
    page = open_page(page_of(tmp_path, str(write(tmp_path / "t.json", *rows)))[0], (1200, 800), device_scale_factor=2)
    canvas, scroller = page.locator("canvas"), page.locator(".scroller")

    assert page.eval_on_selector("canvas", "one => one.height") <= 2 * 800
    assert page.eval_on_selector(".scroller", "one => one.scrollHeight > 5 * one.clientHeight")
    canvas.focus()
    page.keyboard.press("p")
    scrolled = page.eval_on_selector(".scroller", "one => one.scrollTop")
    x, y = page.eval_on_selector("canvas", "one => [Number(one.dataset.selectedX), Number(one.dataset.selectedY)]")
    assert scrolled > 0
    assert 0 < y < scroller.bounding_box()["height"]
    name = page.text_content(".event")
    page.keyboard.press("Escape")
    canvas.click(position={"x": x, "y": y})
    assert page.text_content(".event") == name
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 600, box["y"] + 200)
    page.mouse.wheel(0, -300)
    page.wait_for_timeout(200)
    assert page.eval_on_selector(".scroller", "one => one.scrollTop") < scrolled


@pytest.mark.parametrize("width", [400, 700])
def test_a_name_of_ten_thousand_characters_can_be_read_in_a_narrow_window(
    open_page: Open, tmp_path: Path, width: int
) -> None:
    rows: list[Rows] = [step(0, 0, 500), annotation("r" * 10_000, 1, 400), op("o" * 10_000, 2, 90)]
    file, _ = page_of(
        tmp_path, str(write(tmp_path / "t.json", *rows, launch(10, 1, name="k" * 10_000))), "--kernels", "2"
    )
    page = open_page(file, (width, 800))

    page.locator(".kinds tbody tr:not(.hidden)").click()

    assert page.text_content("#event-name") == "k" * 10_000
    assert page.eval_on_selector(".event", "one => one.scrollWidth <= one.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_what_cannot_be_drawn_is_said(open_page: Open, tmp_path: Path) -> None:
    empty = page_of(tmp_path, str(write(tmp_path / "empty.json", annotation("region", 0, 9))))[0]
    assert "Nothing to draw" in open_page(empty).text_content("#detail")

    timeless = kernel(None, 2, None)
    rows: list[Rows] = [step(0, 0, 90), launch(2, 1), call("cudaLaunchKernel", 20, 2), timeless]
    file = page_of(tmp_path, str(write(tmp_path / "t.json", *rows)))[0]
    assert "1 event without a time in the trace is not drawn" in open_page(file).text_content("#detail")


def test_a_failure_that_the_test_expects_is_said_to_be_expected(open_page: Open, tmp_path: Path) -> None:
    naive = H200 / "attn_naive.json.gz"
    checks = answers(naive, lambda profile: profile.assert_no_memcpy())
    profile = profile_values(load_trace(naive), owner="t", name="1", detailed=True)
    test = {
        **failed(tmp_path, "t", "", checks=checks, profiles=[profile]),
        "id": "t",
        "verdict": "pass",
        "outcome": "passed",
    }
    (tmp_path / "report.html").write_text(html_page(document([test], about=ABOUT)))

    page = open_page(tmp_path / "report.html")

    assert "the test expects this" in page.text_content("#detail")
    # Where there is nothing to say why, the room is left to the names.
    assert page.eval_on_selector_all("#tests th", "all => all.slice(0, 3).map(one => one.textContent)") == [
        *("test", "verdict", "kernels"),
    ]


def test_kernels_that_overlap_stand_below_each_other(open_page: Open, tmp_path: Path) -> None:
    rows: list[Rows] = [step(0, 0, 200), op("aten::mm", 1, 100)]
    rows += [
        launch(10, 1, gpu_ts=50, dur=60),
        launch(20, 2, gpu_ts=60, dur=60),
        kernel(70, 3, dur=60, stream=9),
        call("cudaLaunchKernel", 30, 3),
    ]
    file, _ = page_of(tmp_path, str(write(tmp_path / "t.json", *rows)))
    page = open_page(file)

    canvas, places = page.locator("canvas"), set()
    canvas.focus()
    for _ in range(7):
        page.keyboard.press("n")
        if page.text_content(".event").startswith("kernel"):
            places.add(page.eval_on_selector("canvas", "one => one.dataset.selectedY"))
    assert len(places) == 3
