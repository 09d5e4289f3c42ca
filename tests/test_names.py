"""Kernel names: what stays of a signature, what a pattern matches, what library it is."""

from __future__ import annotations

import pytest

from pytest_kernelprof.names import base_name, matches, shorten


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("void at::native::softmax<float, 4>(float*, int)", "at::native::softmax"),
        (
            "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, 10>(c10::BFloat16*, bool)",
            "(anonymous namespace)::softmax_warp_forward",
        ),
        (
            "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>, true>(pytorch_flash::Flash_fwd_params)",
            "pytorch_flash::flash_fwd_kernel",
        ),
        (
            "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::Kernel::Params)",
            "fmha_cutlassF_bf16_aligned_64x64_rf_sm80",
        ),
        ("nvjet_sm90_tst_64x512_64x2_1x2_h_bz_coopB_NNT", "nvjet_sm90_tst_64x512_64x2_1x2_h_bz_coopB_NNT"),
        ("Cijk_Ailk_Bljk_HHS_BH_MT64x64x32_MI16x16x16x1", "Cijk_Ailk_Bljk_HHS_BH_MT64x64x32_MI16x16x16x1"),
        ("void a::b<&(c::operator()(int))>::run(int) const", "a::b::run"),
        ("void k<std::enable_if<(x > 3), int>::type>(int)", "k"),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float>(int)", "internal::gemvx::kernel"),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD"),
        ("Torch-Compiled Region: 0/0", "Torch-Compiled Region: 0/0"),
        ("unbalanced<name", "unbalanced<name"),
        ("a > b", "a > b"),
        ("", ""),
    ],
)
def test_base_names(name: str, expected: str) -> None:
    assert base_name(name) == expected


FLASH = "void pytorch_flash::flash_fwd_kernel<Traits<64>, false>(pytorch_flash::Flash_fwd_params)"


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("pytorch_flash::flash_fwd_kernel*", FLASH, True),
        ("pytorch_flash::flash_fwd_kernel", FLASH, True),
        ("*flash*", FLASH, True),
        ("*Traits<64>*", FLASH, True),
        ("flash_fwd_kernel", FLASH, False),
        ("PYTORCH_FLASH*", FLASH, False),
        ("k[0]", "k[0]", True),
        ("k[0]", "k0", False),
        ("k?", "k1", True),
    ],
)
def test_patterns(pattern: str, name: str, expected: bool) -> None:
    assert matches(pattern, name) is expected


def test_shortening_keeps_both_ends_and_is_ascii() -> None:
    assert shorten("a" * 50 + "z" * 50, 30) == "a" * 18 + "..." + "z" * 9
    assert shorten("short", 30) == "short"
    assert shorten("k\u00e4rnel\x1b[31m\n", 30) == "k?rnel?[31m?"
    assert len(shorten("x" * 10_000, 56)) == 56
