"""The rules of counting once more, by brute force over plain json: slow, short, and sharing no code with the package."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

GPU = {"kernel": "kernels", "gpu_memcpy": "memcpys", "memcpy": "memcpys", "gpu_memset": "memsets", "memset": "memsets"}
CALLS = ("cuda_runtime", "cuda_driver", "runtime", "xpu_runtime", "xpu_driver")
NODE = "autograd::engine::evaluate_function"

Row = dict[str, Any]
Thread = tuple[Any, Any]
Names = list[str]
Launch = tuple[Row, Row, Names, Names | None]
"""A GPU event, its call, the chain and the regions."""


class Oracle:
    """One trace file."""

    def __init__(self, path: str | Path) -> None:
        content = Path(path).read_bytes()
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        document = json.loads(content, parse_float=Decimal)
        events = document if isinstance(document, list) else document["traceEvents"]
        rows: list[Row] = [row for row in events if isinstance(row, dict) and row.get("ph") == "X"]
        for row in rows:
            row["kind"] = str(row.get("cat", "")).lower()
            row["args"] = row.get("args") or {}
            row["thread"] = (row.get("pid"), row.get("tid"))
            row["start"] = round(Decimal(row.get("ts", 0)) * 1000)
            row["length"] = round(Decimal(row.get("dur", 0)) * 1000)
            row["end"] = row["start"] + max(row["length"], 1)
        named_step = re.compile(r"ProfilerStep#\d+$").match
        ranges = [row for row in rows if row["kind"] in ("cpu_op", "operator", "user_annotation")]
        self.ops = [row for row in ranges if row["kind"] != "user_annotation" and not named_step(row["name"])]
        self.regions = [row for row in ranges if row["kind"] == "user_annotation" and not named_step(row["name"])]
        self.calls = [row for row in rows if row["kind"] in CALLS]
        self.gpu = [row for row in rows if row["kind"] in GPU]
        self.forward: dict[Thread, bool] = {}
        self.op_threads = {row["thread"] for row in self.ops}
        self.node_threads = {row["thread"] for row in self.ops if row["name"].startswith(NODE)}
        self.launch_of = {row["args"]["correlation"]: row for row in self.calls if "correlation" in row["args"]}

    def counts(self) -> dict[str, int]:
        found = dict.fromkeys(("kernels", "memcpys", "memsets"), 0)
        for row in self.gpu:
            found[GPU[row["kind"]]] += 1
        return found

    def sums(self) -> tuple[int, int]:
        return sum(row["start"] for row in self.gpu), sum(row["length"] for row in self.gpu)

    def launches(self) -> Iterator[Launch]:
        """Yield each GPU event that has a launch, with the chain and the regions; ``None`` where rules leave it open."""
        for row in self.gpu:
            launch = self.launch_of.get(row["args"].get("correlation"))
            if launch is not None:
                yield row, launch, *self._place(launch, row)

    def _place(self, launch: Row, event: Row) -> tuple[Names, Names | None]:
        linked = None if launch["thread"] in self.op_threads else self._linked(launch, event)
        if linked is None:
            return names(around(self.ops, launch)), self._regions(launch, launch["thread"])
        chain = [op for op in around(self.ops, linked, apart_from=linked) if launch["start"] < op["end"]]
        inner, outer = self._regions(launch, launch["thread"]), self._regions(linked, linked["thread"])
        return names([*chain, linked]), None if inner is None or outer is None else list(
            dict.fromkeys([*outer, *inner])
        )

    def _linked(self, launch: Row, event: Row) -> Row | None:
        key = external_id(launch) or external_id(event)
        for op in self.ops:
            if (
                key is not None
                and external_id(op) == key
                and op["start"] <= launch["start"] < op["start"] + op["length"]
            ):
                return op
        return None

    def _regions(self, row: Row, thread: Thread) -> Names | None:
        own = names(around(self.regions, row, thread=thread))
        if thread not in self.node_threads or self._ran_forward(thread):
            return own
        callers: dict[Thread, list[Row]] = {}
        for region in self.regions:
            elsewhere = region["thread"] != thread and region["thread"] not in self.node_threads
            if elsewhere and region["start"] <= row["start"] < region["end"]:
                callers.setdefault(region["thread"], []).append(region)
        if len(callers) > 1:
            return None
        outer = [region for regions in callers.values() for region in sorted(regions, key=nesting)]
        return list(dict.fromkeys([*names(outer), *own]))

    def _ran_forward(self, thread: Thread) -> bool:
        if thread not in self.forward:
            mine = [op for op in self.ops if op["thread"] == thread and op["args"].get("Sequence number", -1) >= 0]
            self.forward[thread] = any(not self._in_node(op) for op in mine)
        return self.forward[thread]

    def _in_node(self, op: Row) -> bool:
        return op["name"].startswith(NODE) or any(
            other["name"].startswith(NODE) for other in around(self.ops, op, apart_from=op)
        )


def external_id(row: Row) -> Any:
    return row["args"].get("External id", row["args"].get("external id"))


def nesting(row: Row) -> tuple[int, int]:
    return row["start"], -row["length"]


def around(
    ranges: Iterable[Row], row: Row, *, thread: Thread | None = None, apart_from: Row | None = None
) -> list[Row]:
    thread = row["thread"] if thread is None else thread
    found = [
        one
        for one in ranges
        if one["thread"] == thread and one is not apart_from and one["start"] <= row["start"] < one["end"]
    ]
    if apart_from is not None:
        found = [one for one in found if nesting(one) <= nesting(apart_from)]
    return sorted(found, key=nesting)


def names(rows: Iterable[Row]) -> Names:
    return [row["name"] for row in rows]
