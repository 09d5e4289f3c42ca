"""Measures the page of a report: its size, and how long a browser takes until it can be used.

    python benchmarks/report_page.py [--profiles 50] [--kernels 200]

Needs Playwright and Chromium. The peer is the same document, parsed and put out as text by a page that does nothing else:
what no page of it can do without. Best of five, in one browser.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

PEER = """<!DOCTYPE html><script type="application/json" id="data">{data}</script>
<script>document.write('<pre id="tests">' + JSON.stringify(JSON.parse(document.getElementById('data').textContent)).length)</script>"""


def seconds(browser: Any, file: Path) -> float:
    """Return how long a page takes from the begin of its navigation until what it shows is there, in seconds."""
    page = browser.new_page()
    page.goto(file.as_uri())
    page.wait_for_selector("#tests")
    # A frame later it is painted.
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    now: float = page.evaluate("performance.now()")
    page.close()
    return now / 1000


def main() -> None:
    from playwright.sync_api import sync_playwright
    from test_html import ARGUMENTS, many

    from pytest_kernelprof.cli import main as kernelprof

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profiles", type=int, default=50)
    parser.add_argument("--kernels", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = many(Path(name), options.profiles, options.kernels)
        file, peer = folder / "report.html", folder / "peer.html"
        kernelprof(["report", str(folder / "trace_*.json"), "-o", str(file)])
        data = file.read_text().partition('id="data">')[2].partition("</script>")[0]
        peer.write_text(PEER.format(data=data))
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        ours, theirs = (min(seconds(browser, one) for _ in range(5)) for one in (file, peer))
        browser.close()
        size = file.stat().st_size
    print(f"{options.profiles} profiles of {options.kernels} kernels in 3 steps: {size / 1e6:.2f} MB")
    print(f"page {ours:.3f} s, peer {theirs:.3f} s, ratio {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
