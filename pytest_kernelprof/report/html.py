"""A report as one page: the document, and what shows it, in a single file that needs no network.

The document is data in the page, never markup. A content security policy lets nothing run but the page's own script,
told by its digest, and lets nothing be loaded from anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_ASSETS = Path(__file__).parent / "assets"
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""In JSON they mean the same, and end neither a script nor a comment of HTML."""


def html_page(report: Mapping[str, Any]) -> str:
    """Return a report as a page of HTML, in ASCII."""
    page, style, script = (
        (_ASSETS / f"report.{ending}").read_text(encoding="ascii") for ending in ("html", "css", "js")
    )
    # What the script sets of an element's style, such as the height of the timeline, is no inline style.
    return page.format(
        verdict=report["verdict"],
        style=style,
        style_digest=_digest(style),
        script=script,
        script_digest=_digest(script),
        data=json.dumps(report, allow_nan=False, separators=(",", ":")).translate(_ESCAPES),
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
