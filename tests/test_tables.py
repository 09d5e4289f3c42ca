"""What ``print(profile)`` shows where a class of events was not measured."""

from __future__ import annotations

from pathlib import Path

from builders import call, launch, op, step, write

from pytest_kernelprof import Profile, load_trace


def test_a_profile_of_the_cpu_lists_its_ops_and_says_once_what_was_not_measured(tmp_path: Path) -> None:
    file = write(
        tmp_path / "t.json",
        step(0, 0, 100),
        op("aten::clone", 5, 20),
        op("aten::copy_", 6, 10),
        step(1, 200, 100),
        op("aten::clone", 205, 20),
        op("aten::copy_", 206, 10),
    )

    assert str(Profile(load_trace(file))) == (
        "step            ops\n"
        "ProfilerStep#0  2\n"
        "ProfilerStep#1  2\n"
        "\n"
        "calls    op           inside\n"
        "1        aten::clone  (outermost)\n"
        "1        aten::copy_  aten::clone\n"
        "\n"
        "kernels, memcpys, memsets not measured: no GPU event and no canary in the trace\n"
        "host_syncs, launches not measured: no runtime or driver call in the trace"
    )


def test_a_column_stays_where_one_step_measured_it(tmp_path: Path) -> None:
    file = write(
        tmp_path / "t.json",
        step(0, 0, 100),
        launch(10, 1),
        step(1, 200, 100),
        call("cudaLaunchKernel", 210, 2),
    )

    shown = str(Profile(load_trace(file), steps_may_differ=True)).splitlines()

    assert shown[0].split() == ["step", "kernels", "copies", "memsets", "launches", "syncs", "ops", "GPU", "time"]
    assert shown[1].split()[:2] == ["ProfilerStep#0", "1"]
    assert shown[2].split()[:4] == ["ProfilerStep#1", "not", "measured", "0"]
