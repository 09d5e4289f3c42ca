"""Whatever the bytes: a trace, or one line that says what is wrong. Nothing else is raised, nothing hangs or swells."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from pytest_kernelprof import Trace, TraceError
from pytest_kernelprof.load import reading, trace_from
from pytest_kernelprof.report.layout import Look
from pytest_kernelprof.report.show import View, show_markdown, show_text
from pytest_kernelprof.report.summary import summary

hypothesis = pytest.importorskip("hypothesis", reason="fuzzing needs hypothesis (the test extra)")
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

DATA = Path(__file__).parent / "data"
SEEDS = {
    **{
        name: gzip.decompress((DATA / f"traces_h200/{name}.json.gz").read_bytes())
        for name in ("misc_item", "misc_graph_replay_single", "misc_two_streams")
    },
    **{
        name: (DATA / f"cases/{name}.json").read_bytes()
        for name in ("28_rocm_names_and_blit_fill", "35_xpu_no_stream_grid")
    },
}
MOST_MEMORY = 64 * 1024**2

BOUNDED = settings(
    max_examples=150,
    deadline=20_000,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    database=None,
)

STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=20),
    st.sampled_from(["kernel", "cpu_op", "X", "B", "s", "ProfilerStep#1", "1e999", "-1", "0.0", "\ud800", "NaN"]),
    st.lists(st.integers(-5, 5), max_size=4),
    st.dictionaries(st.text(max_size=3), st.none(), max_size=2),
)
PIECES = st.sampled_from(
    [
        *(b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\x00", b"\xff", b"\xed\xa0\x80", b"NaN", b"-", b"1e9999"),
        *(b"\n", b'{"traceEvents": [', b"},{", b'"ts": ', b'"\\ud800"', b"9" * 5000, b"[" * 600),
    ]
)


@pytest.fixture
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose how sound pieces are decoded: as in a fresh process, or as after something large."""
    import msgspec  # noqa: F401

    monkeypatch.setattr(reading, "is_fast", lambda: request.param)


BOTH = pytest.mark.parametrize("reader", [False, True], ids=["careful", "fast"], indirect=True)


def read(content: bytes) -> Trace | str:
    """Read *content* as far as a user would go; return the trace, or the text of the error that refused it."""
    tracemalloc.start()
    try:
        trace = trace_from(content, "fuzzed.json")
        json.dumps(summary([trace]), allow_nan=False)
        show_text(trace, View(), Look()).encode("ascii", "backslashreplace")
        show_markdown(trace, View())
        _, peak = tracemalloc.get_traced_memory()
    except TraceError as error:
        return str(error)
    finally:
        tracemalloc.stop()
    assert peak < MOST_MEMORY
    return trace


@BOTH
@BOUNDED
@given(
    st.sampled_from(sorted(SEEDS)),
    st.lists(st.tuples(st.floats(0, 1), PIECES | st.binary(max_size=4), st.integers(0, 30)), min_size=1, max_size=6),
)
def test_bytes(reader: None, seed: str, changes: list[tuple[float, bytes, int]]) -> None:
    content = SEEDS[seed]
    for place, inserted, removed in changes:
        position = int(place * len(content))
        content = content[:position] + inserted + content[position + removed :]
    found = read(content)

    assert not isinstance(found, str) or (found.startswith("fuzzed.json: ") and "\n" not in found)


@BOTH
@BOUNDED
@given(st.sampled_from(sorted(SEEDS)), st.floats(0, 1))
def test_cuts_are_refused_or_told(reader: None, seed: str, place: float) -> None:
    content = SEEDS[seed].rstrip()
    content = content[: int(place * (len(content) - 1))]
    found = read(content)

    if isinstance(found, str):
        assert "truncated" in found or "the file is empty" in found
    else:
        # Only a file that was cut behind its list of events is read, and says so.
        assert "not_closed" in [warning.code for warning in found.warnings]
        assert content.count(b'"ph"') == SEEDS[seed].count(b'"ph"')


@BOTH
@BOUNDED
@given(
    st.sampled_from(sorted(SEEDS)),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 30), STRANGE), min_size=1, max_size=8),
)
def test_values(reader: None, seed: str, changes: list[tuple[int, int, Any]]) -> None:
    document = json.loads(SEEDS[seed])
    for row_number, field_number, value in changes:
        row = document["traceEvents"][row_number % len(document["traceEvents"])]
        args = row.get("args")
        places = [*((row, key) for key in row), *((args, key) for key in (args if isinstance(args, dict) else ()))]
        holder, key = places[field_number % len(places)]
        holder[key] = value
    found = read(json.dumps(document).encode("utf-8", "surrogatepass"))

    assert not isinstance(found, str), "a strange value costs a field, not the file"


@BOTH
@BOUNDED
@given(st.lists(STRANGE, max_size=6), st.sampled_from(["deviceProperties", "distributedInfo", "hip_runtime_version"]))
def test_entries_and_metadata(reader: None, entries: list[Any], key: str) -> None:
    for document in ({"traceEvents": entries}, entries, {key: entries, "traceEvents": []}):
        assert not isinstance(read(json.dumps(document).encode("utf-8", "surrogatepass")), str)
