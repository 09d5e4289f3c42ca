"""What the plugin itself writes into a trace, so that a reader can leave it out again.

`capture` writes these names; the reader drops everything inside the annotations and judges the
recording by the metadata.
"""

from __future__ import annotations

STEP_PREFIX = "ProfilerStep#"
"""Kineto's name of a step, which other tools know as well."""

ANNOTATION_PREFIX = "pytest_kernelprof::"
CANARY = ANNOTATION_PREFIX + "canary"
SYNCHRONIZE = ANNOTATION_PREFIX + "synchronize"

SITE_PREFIX = "pytest_kernelprof_site::"
"""Begins the names of regions that stand for lines of Python; what is in them counts."""

METADATA_KEY = "pytest_kernelprof"
"""Top-level key of the trace under which a `Recording` stands as JSON."""

NO_CONTEXT = "no GPU context; use device="
"""Why a recording watched no GPU, if none was in use."""


def side_of(step: int) -> int:
    """Return which of two functions that are called alternately a step is a call of, 0 or 1.

    The order is 0 1 1 0 0 1 1 0: neither always comes first.
    """
    pair, place = divmod(step, 2)
    return place ^ (pair % 2)
