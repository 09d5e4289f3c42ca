"""Derives who launched each GPU event straight from a trace's rows, in the most literal way; shares no code.

``python tests/data/attribution/derive.py TRACE...`` prints the tables that are committed here. They
were read over by hand, beside the traces.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

Row = dict[str, Any]

CLASSES = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
NODE = "autograd::engine::evaluate_function"
HEADER = ("step", "class", "event", "thread", "regions", "ops", "forward")


def holds(outer: Row, moment: float) -> bool:
    """Return whether a row is open at a moment."""
    is_open: bool = outer["ts"] <= moment < outer["ts"] + outer["dur"]
    return is_open


def nest(rows: list[Row], moment: float) -> list[Row]:
    """Return the rows open at a moment, outermost first."""
    return sorted((row for row in rows if holds(row, moment)), key=lambda row: (row["ts"], -row["dur"]))


def derive(path: Path) -> list[tuple[str, ...]]:
    """Return a line for each GPU event and host sync of each step, by step, then by launch."""
    with gzip.open(path) as file:
        rows = [row for row in json.load(file)["traceEvents"] if row.get("ph") == "X"]
    ops = [row for row in rows if row.get("cat") == "cpu_op"]
    notes = [row for row in rows if row.get("cat") == "user_annotation"]
    steps = [row for row in notes if row["name"].startswith("ProfilerStep#")]
    regions = [row for row in notes if row not in steps]
    calls = [row for row in rows if row.get("cat") in ("cuda_runtime", "cuda_driver")]
    by_id = {row["args"]["correlation"]: row for row in calls if "correlation" in row["args"]}
    by_external = {row["args"]["External id"]: row for row in ops}
    # A trace ends with the profiler's own synchronisation.
    last_sync = max((row for row in calls if row["name"] == "cudaDeviceSynchronize"), key=lambda row: row["ts"])
    found = []
    for row in rows:
        kind = CLASSES.get(row.get("cat", ""))
        call = by_id.get(row["args"]["correlation"]) if kind else row
        if not kind and not (row in calls and "Synchronize" in row["name"]):
            continue
        if call is None:
            continue  # Leaked: launched before the recording.
        step = next((one["name"] for one in steps if holds(one, call["ts"])), "" if steps else "(whole file)")
        if not step or (not steps and row is last_sync):
            continue
        chain = nest([one for one in ops if one["tid"] == call["tid"]], call["ts"])
        if not any(one["tid"] == call["tid"] for one in ops):
            # The thread has no ops of its own: the op that launched says which thread's they are.
            op = by_external.get(call["args"].get("External id"))
            if op is not None and holds(op, call["ts"]):
                chain = nest([one for one in ops if one["tid"] == op["tid"]], call["ts"])
        around = nest([one for one in regions if one["tid"] == call["tid"]], call["ts"])
        if any(one["name"].startswith(NODE) for one in chain):
            # An autograd thread: the regions open around backward(), on the only thread that has some.
            around = nest(regions, call["ts"])
        found.append((step, call["ts"], kind or "sync", row["name"][:80], str(call["tid"]), around, chain))
    found.sort(key=lambda line: line[:2])
    return [
        (step, kind, name, thread, names_of(around), names_of(chain), forward(chain, ops))
        for step, _, kind, name, thread, around, chain in found
    ]


def names_of(rows: list[Row]) -> str:
    """Return the names of nested rows as a table has them."""
    return " > ".join(row["name"] for row in rows)


def forward(chain: list[Row], ops: list[Row]) -> str:
    """Return the chain of the forward op with the sequence number of the backward node in *chain*."""
    node = next((one for one in chain if one["name"].startswith(NODE) and "Sequence number" in one["args"]), None)
    if node is None:
        return ""
    number = node["args"]["Sequence number"]
    same = [one for one in ops if one["args"].get("Sequence number") == number and one["args"]["Fwd thread id"] == 0]
    maker = max(same, key=lambda one: one["ts"], default=None)
    if maker is None:
        return ""
    return names_of(nest([one for one in ops if one["tid"] == maker["tid"]], maker["ts"]))


def main(paths: list[str]) -> None:
    """Write a table beside this file for each trace."""
    for path in map(Path, paths):
        lines = ["\t".join(line) for line in (HEADER, *derive(path))]
        goal = Path(__file__).parent / f"{path.name.removesuffix('.json.gz')}.tsv"
        goal.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
