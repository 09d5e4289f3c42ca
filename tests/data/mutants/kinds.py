"""Writes what became of each test to ``kinds.json``: an outcome, or the type of the exception that ended it."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import pytest

KINDS: dict[str, str] = {}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" or report.outcome != "passed":
        failed = report.outcome == "failed"
        kind: str = report.outcome
        if failed:
            assert call.excinfo is not None
            kind = call.excinfo.type.__name__
        KINDS[item.nodeid] = kind if report.when == "call" or not failed else f"{kind} in {report.when}"
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    (Path(session.config.rootpath) / "kinds.json").write_text(json.dumps(KINDS, indent=1, sort_keys=True))
