"""Verdicts as plain values, for reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .checks import GuessRow
from .judging import Answer
from .ledger.difference import Change
from .model import Step
from .report.changes import change_words
from .report.details import evidence
from .sites import Site, shown_path


def answer_values(
    answer: Answer, profile: str, steps: Sequence[Step], shown: Callable[[str], str] = shown_path
) -> dict[str, Any]:
    """Return a verdict as plain values.

    Args:
        answer: The verdict, and what was asked.
        profile: What reports call the profile.
        steps: All steps of the profile, for the places of the events.
        shown: Returns how to name a file of Python.
    """
    question, verdict, told = answer.question, answer.verdict, answer.told
    scope = question.scope()
    return {
        "profile": profile,
        "assertion": question.assertion,
        "arguments": question.arguments(),
        "asked_by": question.asked_by,
        "regions": list(scope.regions),
        "steps": list(scope.steps),
        "steps_may_differ": scope.steps_may_differ,
        "outcome": answer.outcome,
        "headline": told.body.partition("\n")[0],
        "message": told.body,
        "at": [_site(site, shown) for site in told.sites],
        "evidence": evidence(steps, verdict.events) if verdict and told.body else [],
        "changes": [_change(change) for change in verdict.ledger] if verdict else [],
        "guess": [_guess(row) for row in verdict.rows] if verdict else [],
    }


def _site(site: Site, shown: Callable[[str], str]) -> dict[str, Any]:
    return {"file": shown(site.file), "line": site.line, "function": site.function, "exact": site.exact}


def _change(change: Change) -> dict[str, Any]:
    return {
        "class": change.class_name,
        "kind": change.kind,
        "words": change_words(change, in_full=True),
        "before": [{"count": number, "words": line.words()} for line, number in change.before],
        "after": [{"count": number, "words": line.words()} for line, number in change.after],
    }


def _guess(row: GuessRow) -> dict[str, Any]:
    return {
        "role": row.role,
        "guessed": None if row.limit is None else row.limit.words(),
        "seen": len(row.seen),
        "exact": row.exact,
        "wrong": row.wrong,
    }
