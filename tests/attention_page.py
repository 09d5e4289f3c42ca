"""Fills the generated parts of ``docs/attention.md``: ``python tests/attention_page.py`` after recording anew."""

from __future__ import annotations

import json
import re

from mutations import ATTENTION, MUTATIONS, RECORDINGS, ROOT, findings

PAGE = ROOT / "docs/attention.md"
FINDINGS = ATTENTION / "findings_h200.json"


def findings_table() -> str:
    """Return the table of the findings, as a run on a GPU saw them."""
    run = json.loads(FINDINGS.read_text())
    return f"{run['device']}, torch {run['torch']}, {run['date']}:\n\n{findings().page_table(run['findings'], run['device'])}"


def wrong_guess() -> str:
    """Return what a wrong guess prints, by replay."""
    from pytest_kernelprof import Profile, load_trace
    from pytest_kernelprof.report.layout import Look

    (recording,) = (ATTENTION / RECORDINGS).glob("test_naive.module-naive-*.json.gz")
    try:
        Profile(load_trace(recording), look=Look.of(120)).assert_guess(gemm=2, elementwise=2, softmax=1, memcpy=0)
    except AssertionError as error:
        shown_by = "<!-- shown by: tests/test_examples.py::test_the_page_on_attention_is_what_was_recorded -->"
        return f"{shown_by}\n```text\n{error}\n```"
    raise ValueError("the wrong guess passed")


def mutations_table() -> str:
    """Return which tests each mutation turns red."""
    lines = ["| somebody writes | red |", "| --- | --- |"]
    for name, mutation in MUTATIONS.items():
        red = {test.rpartition("::")[2].partition("[")[0] for test in mutation.red | mutation.values}
        shown = ", ".join(f"`{test}`" for test in sorted(red))
        lines.append(f"| {name} | {shown} |")
    return "\n".join(lines)


PARTS = {"findings": findings_table, "wrong guess": wrong_guess, "mutations": mutations_table}


def filled(page: str) -> str:
    """Return the page with its generated parts made anew."""
    for name, make in PARTS.items():
        pattern = rf"(<!-- generated: {name} -->\n).*?(\n<!-- end -->)"
        made = make()
        page, number = re.subn(pattern, rf"\g<1>{_literal(made)}\g<2>", page, flags=re.DOTALL)
        if number != 1:
            raise ValueError(f"{PAGE} has {number} parts called {name}")
    return page


def _literal(text: str) -> str:
    return text.replace("\\", "\\\\")


def fill() -> None:
    """Fill the page."""
    PAGE.write_text(filled(PAGE.read_text()))


if __name__ == "__main__":
    fill()
