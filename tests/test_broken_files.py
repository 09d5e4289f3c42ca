"""Files that are broken, huge or no files: one line each, offsets of the whole file, and nothing dropped silently."""

from __future__ import annotations

import gc
import gzip
import json
import os
import random
import socket
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any, NoReturn

import pytest
from builders import Row, kernel, launch, op, row, step, write

from pytest_kernelprof import Trace, TraceError, load_trace
from pytest_kernelprof.cli import main
from pytest_kernelprof.load import reading, trace_from

MANY = 6000
"""Rows of a file that is read in several pieces."""


def many_rows(number: int = MANY) -> list[Row]:
    rows: list[Row] = []
    for position in range(number // 3):
        rows += [op("aten::relu", position * 20, 10), *launch(position * 20 + 1, position)]
    return rows


def content_of(rows: list[Any]) -> bytes:
    return json.dumps({"schemaVersion": 1, "traceEvents": rows}, indent=1).encode()


def codes(trace: Trace) -> list[str]:
    return [warning.code for warning in trace.warnings]


def refusal(path: Path | str) -> str:
    with pytest.raises(TraceError) as caught:
        load_trace(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Offsets and numbers are those of the whole file


def test_the_offset_of_an_error_deep_in_a_large_file(tmp_path: Path, reader: None) -> None:
    content = content_of(many_rows())
    place = content.index(b'"ph"', len(content) * 2 // 3)
    path = tmp_path / "t.json"
    path.write_bytes(content[:place] + b"!" + content[place:])

    assert f"at byte {place};" in refusal(path)


def test_the_offset_of_a_cut_in_a_large_file(tmp_path: Path, reader: None) -> None:
    content = content_of(many_rows())
    cut = content.index(b"cudaLaunchKernel", len(content) * 2 // 3) + 4
    path = tmp_path / "t.json"
    path.write_bytes(content[:cut])

    assert f"JSON truncated at byte {cut - 5} of {cut};" in refusal(path)


def test_the_place_of_a_strange_value_in_a_large_file(reader: None) -> None:
    rows = many_rows()
    rows[5000]["args"]["stream"] = ["?"]
    rows[5003]["args"]["stream"] = {}
    rows[1]["pid"] = [1]
    trace = trace_from(content_of(rows), "t.json")

    (warning,) = [one for one in trace.warnings if one.code == "bad_value"]
    assert warning.message == "3 values (the first at $.traceEvents[1].pid): unreadable, taken as missing"


def test_a_number_after_entries_that_are_no_events_is_that_of_the_file(reader: None) -> None:
    rows: list[Any] = [None, "text", *launch(1, 1), 7]
    rows[3]["args"]["stream"] = "?"
    found = {one.code: one.message for one in trace_from(content_of(rows), "t.json").warnings}

    assert "3 entries (the first at $.traceEvents[0])" in found["not_an_event"]
    assert "(at $.traceEvents[3].args.stream)" in found["bad_value"]


# Where a list may be cut into pieces


def test_strings_that_look_like_boundaries_do_not_split_an_event(reader: None) -> None:
    random.seed(1)
    rows = many_rows()
    for position, one in enumerate(rows):
        one["args"]["note"] = random.choice(['}, {"', "},{", "\\", '"', "]", '],"traceEvents":[{', '\\\\"},\n  {']) * (
            1 + position % 40
        )
        one["args"]["nested"] = [{"a": 1}, {"b": [{}, {}]}]
    trace = trace_from(content_of(rows), "t.json")

    assert len(trace.totals.kernels) == len(trace.totals.launches) == len(trace.totals.ops) == MANY // 3
    assert {kernel.chain[0].name for kernel in trace.totals.kernels} == {"aten::relu"}
    assert not trace.warnings


def test_an_event_larger_than_a_piece(reader: None) -> None:
    rows = [*many_rows(3000), row("cpu_op", "aten::relu", 1, 1, note="x, {} " * 200_000), *launch(10**6, 9999)]
    trace = trace_from(content_of(rows), "t.json")

    assert len(trace.totals.kernels) == 1001
    assert len(trace.totals.ops) == 1001


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,\n", "  :\n")])
def test_any_whitespace(separators: tuple[str, str], reader: None) -> None:
    content = json.dumps({"traceEvents": many_rows()}, separators=separators).encode()

    assert len(trace_from(content, "t.json").totals.kernels) == MANY // 3


def test_metadata_after_a_large_list_may_look_like_events(reader: None) -> None:
    document = {"traceEvents": many_rows(), "deviceProperties": [{"name": "NVIDIA H200"}, {"name": "NVIDIA H200"}]}
    document["more"] = [{"ph": "X", "cat": "kernel"}] * 5000
    trace = trace_from(json.dumps(document).encode(), "t.json")

    assert len(trace.totals.kernels) == MANY // 3
    assert trace.environment.devices == ("NVIDIA H200", "NVIDIA H200")


def test_a_nested_list_of_events_is_none(reader: None) -> None:
    hostile = {"first": {"traceEvents": launch(1, 1)}, "x": '"traceEvents": [', "traceEvents": launch(1, 1) * 1}
    trace = trace_from(json.dumps(hostile).encode(), "t.json")

    assert len(trace.totals.kernels) == 1


def test_a_key_may_be_escaped() -> None:
    content = json.dumps({"traceEvents": launch(1, 1)}).replace("trace", "\\u0074race").encode()

    assert len(trace_from(content, "t.json").totals.kernels) == 1


def test_a_lost_quote_ends_in_an_error_and_not_in_a_loop(tmp_path: Path, reader: None) -> None:
    content = content_of(many_rows())
    path = tmp_path / "t.json"
    for broken in (
        content.replace(b'aten::relu"', b"aten::relu", 1),
        b'{"traceEvents": [{"name": "' + b"a" * 300_000,
        content[:-2].replace(b"}", b"{"),
    ):
        path.write_bytes(broken)
        assert " at byte " in refusal(path)


@pytest.mark.parametrize("hole", [b"\0" * 512, b"\xff" * 512], ids=["zeros", "ones"])
def test_a_block_that_the_disk_lost_is_refused(tmp_path: Path, reader: None, hole: bytes) -> None:
    content = content_of(many_rows())
    begin = content.index(b"aten::relu", len(content) // 2) + 4
    end = content.index(b"aten::relu", begin + 400) + 2
    path = tmp_path / "t.json"
    path.write_bytes(content[:begin] + hole + content[end:])

    assert f"no text at byte {begin}: a part of the file was lost" in refusal(path)


def test_bytes_that_are_no_text_are_told_in_fields_that_nobody_reads_too(reader: None) -> None:
    content = content_of([*launch(1, 1), op("aten::relu", 1, 1, note="@")]).replace(b"@", b"\xff")

    assert "not_utf8" in codes(trace_from(content, "t.json"))


# Mended, and told


def test_a_bare_list_may_end_without_its_bracket_and_is_not_measured(reader: None) -> None:
    content = json.dumps(launch(1, 1)).encode()
    for end in (b"", b",", b",\n"):
        trace = trace_from(content[:-1] + end, "t.json")
        assert len(trace.totals.kernels.seen) == 1
        assert "the file ends inside the list of events" in (trace.totals.kernels.why_not_measured or "")
        assert codes(trace)[0] == "not_closed"


def test_a_list_in_an_object_must_be_closed(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(json.dumps({"traceEvents": launch(1, 1)}).encode()[:-2])

    assert "JSON truncated" in refusal(path)


def test_an_object_may_end_behind_its_list(reader: None) -> None:
    trace = trace_from(json.dumps({"traceEvents": launch(1, 1)}).encode()[:-1], "t.json")

    assert len(trace.totals.kernels) == 1
    assert codes(trace)[0] == "not_closed"


def test_a_trailing_comma_is_told(reader: None) -> None:
    trace = trace_from(json.dumps({"traceEvents": launch(1, 1)}).encode()[:-2] + b",]}", "t.json")

    assert len(trace.totals.kernels) == 1
    assert "trailing_comma" in codes(trace)


def test_bad_escapes_are_read_as_backslashes_and_counted(reader: None) -> None:
    rows = [*launch(1, 1), row("python_function", "C:@users@me@x.py(1): f", 1, 1), op("@cuda@n", 2, 1)]
    trace = trace_from(content_of(rows).replace(b"@", b"\\"), "t.json")
    found = {one.code: one.message for one in trace.warnings}

    assert len(trace.totals.kernels) == 1
    assert trace.totals.ops[0].name == "\\cuda\n"  # \n is a valid escape: what was meant cannot be told.
    assert found["bad_escape"].startswith("4 backslashes (the first at byte ")


def test_one_piece_that_must_be_mended_does_not_touch_the_others(reader: None) -> None:
    rows = many_rows()
    rows[3000]["args"]["bytes"] = "@NaN@"
    content = content_of(rows).replace(b'"@NaN@"', b"NaN")
    trace = trace_from(content, "t.json")
    found = {one.code: one.message for one in trace.warnings}

    assert len(trace.totals.kernels) == MANY // 3
    assert f"(at byte {content.index(b'NaN')})" in found["not_a_number"]


def test_rows_that_do_not_say_what_they_are_spoil_every_class(reader: None) -> None:
    rows = [op("aten::relu", 0, 5), *launch(1, 1), {**kernel(9, 2), "cat": 5}]
    trace = trace_from(content_of(rows), "t.json")

    assert "unidentified_row" in codes(trace)
    for name in ("kernels", "memcpys", "memsets", "host_syncs", "launches", "ops"):
        assert "1 row of the file without a readable category" in getattr(trace.totals, name).why_not_measured


def test_a_byte_order_mark_is_skipped() -> None:
    content = b"\xef\xbb\xbf" + json.dumps({"traceEvents": launch(1, 1)}).encode()

    assert len(trace_from(content, "t.json").totals.kernels) == 1


def test_numbers_that_no_machine_has_are_told(reader: None) -> None:
    rows = launch(1, 1)
    rows[1]["args"].update({"stream": 2**70, "registers per thread": True, "shared memory": 1.5, "grid": [1, 2]})
    trace = trace_from(content_of(rows), "t.json")
    (seen,) = trace.totals.kernels

    assert (seen.stream, seen.registers_per_thread, seen.shared_memory_bytes, seen.grid) == (None, None, None, None)
    assert any(one.message.startswith("4 values") for one in trace.warnings)


def test_times_that_are_none_are_told_and_not_zero(reader: None) -> None:
    for bad in ("soon", [1], True, 1e300, "1e400"):
        rows = launch(1, 1)
        rows[1]["dur"] = bad
        trace = trace_from(content_of(rows), "t.json")
        assert trace.totals.kernels[0].duration_ns is None, bad
        assert set(codes(trace)) >= {"bad_value", "no_time"}, bad


# What is no file, or too much of one


def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)

    assert "a pipe; save it to a file first" in refusal(pipe)


def test_other_things_that_are_no_files(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        assert "a socket" in refusal(tmp_path / "s")
    assert "a device" in refusal("/dev/null")
    assert "no such file" in refusal(tmp_path / "missing.json")
    assert "null" in refusal("a\0b")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", launch(1, 1))
    path.chmod(0)

    assert "Permission denied" in refusal(path)


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.json", launch(1, 1))

    def denied(*_: object, **__: object) -> NoReturn:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", denied)
    assert f"{path}: Permission denied" in refusal(path)


def test_the_limit_on_size_holds_for_what_is_inside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bomb = tmp_path / "bomb.json.gz"
    bomb.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * 50_000_000 + b"]}"))
    tracemalloc.start()
    assert main(["show", "--max-trace-size", "16 MiB", str(bomb)]) == 2
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert "holds more than 16.0 MiB; if it can be trusted, raise kernelprof_max_trace_size" in capsys.readouterr().err
    assert peak < 40 * 1024**2
    with pytest.raises(SystemExit):
        main(["show", "--max-trace-size", "much", str(bomb)])
    assert "accepted: a number of bytes, or text such as 512 MiB or 8 GiB" in capsys.readouterr().err


def test_an_event_without_an_end_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(TraceError, match="no end of an event within 16 MiB, at byte 17"):
        trace_from(b'{"traceEvents": [' + b'{"name": "' + b"x" * 40_000_000, "t.json")


def test_several_gzip_streams_and_padding(tmp_path: Path) -> None:
    content = json.dumps({"traceEvents": launch(1, 1)}).encode()
    path = tmp_path / "t.json.gz"
    for padding in (b"", b"\0" * 512, b"\0" * 600_000):
        path.write_bytes(gzip.compress(content[:50]) + gzip.compress(content[50:]) + padding)
        assert len(load_trace(path).totals.kernels) == 1
    path.write_bytes(gzip.compress(content) + b"rubbish")
    assert "gzip stream corrupt" in refusal(path)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 9, 17, 40])
def test_gzip_files_that_hardly_begin(tmp_path: Path, size: int) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": launch(1, 1)}).encode())[:size])

    assert refusal(path).startswith(f"{path}: ")


# What reading costs


def test_memory_follows_the_events_that_are_kept() -> None:
    def peak(rows: list[Row]) -> int:
        content = content_of(rows)
        tracemalloc.start()
        trace_from(content, "t.json")
        _, used = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return used

    import msgspec  # noqa: F401

    stacks = [row("python_function", f"module.py({n}): forward", n, 1, **{"Python id": n}) for n in range(40_000)]
    arrows = [{"ph": "s", "cat": "ac2g", "name": "ac2g", "id": n, "pid": 1, "tid": 1, "ts": n} for n in range(40_000)]
    few = launch(1, 1) * 1

    assert peak([*few, *stacks, *arrows]) < 1.5 * peak([*few, *stacks[:9000], *arrows[:9000]])


def test_the_garbage_collector_of_the_caller_is_left_alone() -> None:
    program = (
        "import gc; from pytest_kernelprof.load import trace_from; before = gc.isenabled(), gc.get_threshold(),"
        " gc.get_freeze_count(); gc.disable(); trace_from(b'[]', 't'); assert not gc.isenabled(); gc.enable();"
        " trace_from(b'[]', 't'); assert before == (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count())"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert gc.isenabled()


def test_large_files_are_decoded_by_msgspec_and_small_ones_without(tmp_path: Path) -> None:
    small, large = write(tmp_path / "s.json", launch(1, 1)), tmp_path / "l.json"
    large.write_bytes(content_of(many_rows(9000)))
    program = "import sys; from pytest_kernelprof.load import load_trace; load_trace(sys.argv[1]); print('msgspec' in sys.modules)"

    def used(path: Path) -> str:
        return subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True).stdout

    assert (used(small), used(large)) == ("False\n", "True\n")


def test_both_readers_agree_on_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import msgspec  # noqa: F401

    content = content_of([step(1, 0, 60_000), *many_rows(), step(2, 60_000, 60_000)])
    seen = []
    for fast in (False, True):
        monkeypatch.setattr(reading, "is_fast", lambda fast=fast: fast)
        trace = trace_from(content, "t.json")
        seen.append([(e.name, e.start_ns, e.duration_ns, e.grid, e.stream, len(e.chain)) for e in trace.totals.kernels])
    assert seen[0] == seen[1]
