"""Whole messages, at several widths, as files: ``pytest tests/test_messages.py --rewrite-golden`` writes them anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import Rows, annotation, call, launch, memcpy, op, step, write

from pytest_kernelprof import NotMeasured, Profile, SelectorError, Trace, load_trace
from pytest_kernelprof.checks import _aligned, _differences
from pytest_kernelprof.names import close_names
from pytest_kernelprof.report.layout import Chain, Look, Short, plain_table, terminal_width

DATA = Path(__file__).parent / "data"
GOLDEN = Path(__file__).parent / "golden"
INDENT = len("E       ")
Make = Callable[[Path], Trace]
Check = Callable[[Profile], object]
LOOKS = {f"{width} columns": Look.of(width, 0, INDENT) for width in (60, 80, 120, 200)}
LOOKS["80 columns, -v"] = Look.of(80, 1, INDENT)
LOOKS["-vv"] = Look.of(80, 2, INDENT)


def h200(name: str) -> Callable[[Path | None], Trace]:
    return lambda _: load_trace(DATA / f"traces_h200/{name}.json.gz")


def case(name: str) -> Make:
    return lambda _: load_trace(next((DATA / "cases").glob(f"{name}_*")))


def made(*rows: Rows) -> Make:
    return lambda folder: load_trace(write(folder / "made.json", *rows))


def differing() -> Make:
    """Three steps; the second copies and sorts besides, the third launches a kernel less."""
    rows: list[Rows] = []
    for number, names in enumerate(
        (["a", "b", "c", "d", "e"], ["a", "b", "x", "c", "d", "e", "y"], ["a", "b", "c", "e"])
    ):
        begin = 100 * number
        rows += [step(number, begin, 100), op("aten::work", begin + 1, 90)]
        for place, name in enumerate(names):
            rows += launch(begin + 2 + 2 * place, 100 * number + place + 1, name=name)
    return made(*rows)


SYNCS = made(
    annotation("decode", 0, 90),
    op("aten::item", 1, 20),
    op("aten::_local_scalar_dense", 2, 18),
    call("cudaMemcpyAsync", 3, 1),
    memcpy(5, 1, name="Memcpy DtoH (Device -> Pinned)"),
    call("cudaStreamSynchronize", 6, 2, dur=12),
    op("aten::nonzero", 30, 20),
    call("cudaMemcpyAsync", 31, 3),
    memcpy(33, 3, name="Memcpy DtoH (Device -> Pinned)"),
    call("cudaStreamSynchronize", 34, 4, dur=3),
    call("cudaMemcpy", 60, 5, dur=8),
    memcpy(61, 5, name="Memcpy HtoD (Pageable -> Device)", size=1 << 20),
    call("cudaEventSynchronize", 80, 6, dur=5),
    launch(95, 7),
)

MESSAGES: dict[str, tuple[Make, Check]] = {
    "copy": (h200("attn_naive"), lambda p: p.assert_no_memcpy()),
    "kernels": (h200("attn_naive"), lambda p: p.assert_kernel_count(4)),
    "many_kernels": (h200("attn_sdpa_math"), lambda p: p.assert_kernel_count(1)),
    "backward": (h200("misc_train"), lambda p: p.assert_kernel_count(1, launched_by="*Backward0")),
    "training": (h200("misc_train"), lambda p: p.assert_kernel_count(1)),
    "compiled": (h200("misc_compiled_naive"), lambda p: p.assert_kernel_count(1)),
    "graph": (h200("misc_graph_replay"), lambda p: p.assert_kernel_count(1)),
    "streams": (h200("misc_two_streams"), lambda p: p.assert_kernel_count(1)),
    "item": (h200("misc_item"), lambda p: p.assert_no_host_sync()),
    "syncs": (SYNCS, lambda p: p.assert_no_host_sync(allow=["aten::nonzero"])),
    "allowed": (SYNCS, lambda p: p.assert_no_host_sync(allow=["aten::nonzero", "aten::itm", "cudaMemcpy"])),
    "ops": (h200("misc_train"), lambda p: p.assert_no_op("aten::m*")),
    "tensor_cores": (h200("misc_mm_fp32"), lambda p: p.assert_tensor_cores()),
    "occupancy": (h200("attn_sdpa_flash"), lambda p: p.assert_occupancy(at_least=0.5)),
    "guess": (h200("attn_naive"), lambda p: p.assert_guess(gemm=2, elementwise=3, softmax=1, memcpy=0)),
    "sequence": (h200("attn_naive"), lambda p: p.assert_kernel_sequence(["nvjet_*", "*softmax*", ...])),
    "memset": (h200("misc_item"), lambda p: p.assert_no_memset()),
    "launches": (h200("attn_naive"), lambda p: p.assert_launch_count(0, api="cu*")),
    "steps": (differing(), lambda p: p.assert_kernel_count(at_least=1)),
    "closest_kernel": (h200("attn_naive"), lambda p: p.assert_kernel("softmax_warp_forwrad")),
    "closest_op": (h200("attn_naive"), lambda p: p.assert_op_count("aten::softmx", 1)),
    "closest_selector": (h200("attn_naive"), lambda p: p.assert_no_kernel("*", launched_by="aten::softmx")),
    "closest_region": (h200("attn_naive"), lambda p: p.region("attn_fw")),
    "not_measured": (case("38"), lambda p: p.assert_kernel_count(5)),
}


def message(make: Make, check: Check, folder: Path, look: Look) -> str:
    profile = Profile(make(folder), look=look)
    with pytest.raises((AssertionError, NotMeasured, SelectorError)) as failure:
        check(profile)
    return f"{failure.type.__name__}: {failure.value}"


@pytest.mark.parametrize("name", MESSAGES)
def test_whole_messages(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    shown = []
    for title, look in LOOKS.items():
        told = message(*MESSAGES[name], tmp_path, look)
        assert told.isascii()
        assert all(line == line.rstrip() for line in told.splitlines())
        if look.width is not None:
            # The headline is one line, whatever the width; what stands under it fits.
            tables = [line for line in told.splitlines()[1:] if not line.startswith(("the closest", "allow="))]
            assert all(len(line) <= look.width for line in tables), told
        shown.append(f"== {title}\n{told}\n")
    golden, text = GOLDEN / f"{name}.txt", "\n".join(shown)
    if request.config.getoption("--rewrite-golden"):
        golden.write_text(text)
    assert golden.read_text() == text


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(MESSAGES)


# Steps that disagree


def test_the_first_line_says_who_wants_steps_alike(tmp_path: Path) -> None:
    trace = differing()(tmp_path)

    with pytest.raises(AssertionError, match=r"expected all alike \(steps_may_differ=True accepts it\)\n"):
        Profile(trace).assert_kernel_count(at_least=1)
    asked = Profile(trace, alike_by="by the marker")
    with pytest.raises(AssertionError, match=r"expected all alike \(steps_may_differ=False by the marker\)"):
        asked.assert_kernel_count(at_least=1)
    with pytest.raises(AssertionError, match="steps_may_differ=False by the marker"):
        len(asked.kernels)


def lines(old: str, new: str) -> str:
    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

    before: list[Any] = [Named(one) for one in old]
    after: list[Any] = [Named(one) for one in new]
    told = _aligned(before, after)
    return " ".join(line.sign + (line.event.name if line.event else "...") for line in told)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("abcd", "abxcd", "... b +x c ..."),
        ("abcd", "bcd", "-a b ..."),
        ("abcd", "abcde", "... d +e"),
        ("abcd", "abd", "... b -c d"),
        ("ab", "bax", "a +x"),
        ("abcdefgh", "hgfedcbax", "a +x"),
        ("abc", "xyz", "-a -b -c +x +y +z"),
        ("", "ab", "+a +b"),
        ("ab", "", "-a -b"),
        ("aaaa", "aa", "... a -a -a"),
        ("axbxc", "abc", "a -x b -x c"),
        ("abcdefgh", "abXdefYh", "... b -c +X d ... f -g +Y h"),
        # What only moved is no difference.
        ("abcdef", "acbdeXf", "... e +X f"),
    ],
)
def test_what_came_and_went_is_aligned(old: str, new: str, expected: str) -> None:
    assert lines(old, new) == expected


def test_aligning_does_not_explode() -> None:
    old = [str(number % 977) for number in range(60_000)]
    new = ["new", *reversed(old[:-1])]

    assert _differences(old, new) == [(0, 60_000, 0, 60_000)]
    # What differs in one place is told exactly, however long the rest.
    assert _differences(old, [*old[:30_000], "x", *old[30_000:]]) == [(30_000, 30_000, 30_000, 30_001)]


# Layout


def test_a_chain_loses_its_middle_first() -> None:
    names = (
        "aten::scaled_dot_product_attention",
        "aten::_scaled_dot_product_attention_math",
        "aten::to",
        "aten::copy_",
    )
    cell = Chain(names, (", backward of aten::linear > aten::addmm", ", backward of aten::addmm"))

    assert cell == " > ".join(names) + ", backward of aten::linear > aten::addmm"
    assert cell.within(200) == cell
    for width in range(1, 160):
        assert len(cell.within(width)) <= width
    assert Chain(names).within(60) == "aten::scaled_dot_product_attention > ... > aten::copy_"
    assert Chain(names).within(20) == "... > aten::copy_"
    assert cell.within(45) == "... > aten::copy_, backward of aten::addmm"
    assert Chain(["aten::_flash_attention_forward"]).within(20) == "aten::_flash...rward"


def test_a_table_fits_or_becomes_records() -> None:
    rows = [[Short("k" * 90), "1.0 us", Chain(["aten::a", "aten::b" * 9])]] * 2
    headers = ("kernel", "time", "launched by")

    for width in range(44, 200):
        assert all(len(line) <= width for line in plain_table(headers, rows, width).splitlines())
    narrow = plain_table(headers, rows, 40)
    assert narrow.startswith("kernel       kkkkkk")
    assert narrow.count("launched by") == 2
    assert plain_table(headers, rows).count("k" * 90) == 2


def test_the_width_is_that_of_columns_or_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "93")
    assert terminal_width() == 93
    assert Look.of(None, 0, INDENT).width == 85
    for wrong in ("0", "-5", "wide", ""):
        monkeypatch.setenv("COLUMNS", wrong)
        assert terminal_width() > 0
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr("sys.__stdout__", None)
    assert terminal_width() == 120
    assert (Look.of(10).width, Look.of(999).width) == (60, 200)
    assert Look.of(80, 1) == Look(80, every_row=True)
    assert Look.of(80, 2) == Look(None, every_row=True)


# What a review tried


HOSTILE = "evil\x1b[31m\nname\t\u4e2d\u6587" + "x" * 10_000


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_hostile_names_are_shown_in_ascii_and_break_no_table(tmp_path: Path, look: Look) -> None:
    rows = [
        annotation(HOSTILE, 0, 50),
        op(HOSTILE, 1, 40),
        *launch(2, 1, name=HOSTILE),
        call("cudaEventSynchronize", 9, 2),
    ]
    trace = made(*rows, step(1, 0, 60), step(2, 70, 60), *launch(72, 3, name="plain"))(tmp_path)
    profile = Profile(trace, look=look)
    checks: list[Callable[[], object]] = [
        lambda: profile.assert_kernel_count(9),
        lambda: profile.assert_no_host_sync(allow=["evil"]),
        lambda: profile.assert_op_count("evl", 1),
        lambda: profile.assert_no_kernel("*", launched_by="evil"),
        lambda: profile.region("evil"),
        lambda: profile.assert_kernel_sequence(["evil"]),
    ]
    for check in checks:
        with pytest.raises((AssertionError, NotMeasured, SelectorError)) as failure:
            check()
        told = str(failure.value)
        assert told.isascii()
        assert all(character.isprintable() or character == "\n" for character in told)
        if look.width is not None:
            tables = [line for line in told.splitlines()[1:] if not line.startswith(("the closest", "allow="))]
            assert all(len(line) <= look.width for line in tables)


def test_a_pattern_that_only_other_selectors_exclude_is_told_so() -> None:
    with pytest.raises(AssertionError, match="'aten::mm' occurs, but not where the other selectors look"):
        Profile(h200("misc_train")(None)).assert_op_count("aten::mm", 3, launched_by="aten::gelu")


@pytest.mark.parametrize(
    ("pattern", "names", "expected"),
    [
        ("softmax", ["softmax_warp_forward", "mul"], ["softmax_warp_forward"]),
        ("SOFTMAX*", ["softmax_warp_forward", "mul"], ["softmax_warp_forward"]),
        ("nvjt_*", ["nvjet_sm90_tst_64x512", "mul"], ["nvjet_sm90_tst_64x512"]),
        ("FLASH*", ["pytorch_flash::flash_fwd_kernel", "mul"], ["pytorch_flash::flash_fwd_kernel"]),
        ("matmul", ["aten::mul", "aten::matmul"], ["aten::matmul"]),
        ("aten::itm", ["aten::item", "aten::mm", "aten::matmul"], ["aten::item"]),
        ("aten::softmx", ["aten::softmax", "aten::_softmax", "aten::mul"], ["aten::softmax", "aten::_softmax"]),
        ("attn_fw", ["attn_fwd", "train"], ["attn_fwd"]),
        ("something else", ["aten::mul", "gemm"], []),
        ("*", ["aten::mul"], []),
        ("", ["aten::mul"], []),
    ],
)
def test_closest_names(pattern: str, names: list[str], expected: list[str]) -> None:
    assert close_names(pattern, names) == expected


def test_a_pattern_of_allow_that_would_not_allow_is_told(tmp_path: Path) -> None:
    trace = made(annotation("execute(bs=3)", 0, 50), call("cudaEventSynchronize", 9, 2), launch(20, 1))(tmp_path)

    with pytest.raises(AssertionError, match=r"allow='execute' names nothing here; the closest: execute\(bs=3\)"):
        Profile(trace).assert_no_host_sync(allow=["execute"])


def test_many_steps_that_differ_are_counted(tmp_path: Path) -> None:
    rows: list[Rows] = [step(0, 0, 10), launch(1, 1, name="a")]
    for number in range(1, 12):
        rows += [step(number, 20 * number, 10), launch(20 * number + 1, number + 1, name=f"other{number}")]
    trace = made(*rows)(tmp_path)

    with pytest.raises(AssertionError) as short:
        Profile(trace).assert_kernel_count(1)
    with pytest.raises(AssertionError) as long:
        Profile(trace, verbose=True).assert_kernel_count(1)
    assert str(short.value).count(" against ProfilerStep#0 (-):") == 3
    assert str(short.value).endswith("... and 8 steps that differ otherwise (-v shows all)")
    assert str(long.value).count(" against ProfilerStep#0 (-):") == 11


def test_steps_that_differ_alike_in_another_order_stand_together(tmp_path: Path) -> None:
    rows: list[Rows] = []
    for number, names in enumerate(("ab", "axb", "bxa")):
        rows += [step(number, 20 * number, 20)]
        rows += [
            launch(20 * number + 2 * place, 10 * number + place + 1, name=name) for place, name in enumerate(names)
        ]
    with pytest.raises(AssertionError) as told:
        Profile(made(*rows)(tmp_path)).assert_kernel_count(at_least=1)

    assert str(told.value).count("ProfilerStep#1, ProfilerStep#2 (+) against ProfilerStep#0 (-):") == 1
    assert [line.split() for line in str(told.value).splitlines() if line.startswith(("+", "-"))] == [
        ["+", "x", "(no", "op)"]
    ]


def test_who_wants_steps_alike_is_named_where_times_are_judged(tmp_path: Path) -> None:
    profile = Profile(differing()(tmp_path), alike_by="by the marker")

    with pytest.raises(AssertionError, match="steps_may_differ=False by the marker"):
        profile.assert_gpu_time(at_most="1 s")


def test_a_pattern_of_allow_that_names_nothing_is_told_of_graphs_too() -> None:
    with pytest.raises(AssertionError, match="allow='aten::matmull' names nothing here; the closest: aten::matmul"):
        Profile(h200("attn_naive")(None)).assert_graphed(allow=["aten::matmull"])
