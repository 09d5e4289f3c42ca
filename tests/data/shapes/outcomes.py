"""Writes what became of each test, and its message, to ``outcomes.json``; copied to ``conftest.py`` to run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

OUTCOMES: dict[str, list[str]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        crash = getattr(report.longrepr, "reprcrash", None)
        OUTCOMES[report.nodeid] = [report.outcome, crash.message if crash else str(report.longrepr or "")]


def pytest_sessionfinish(session: pytest.Session) -> None:
    (Path(session.config.rootpath) / "outcomes.json").write_text(json.dumps(OUTCOMES, indent=1, sort_keys=True))
