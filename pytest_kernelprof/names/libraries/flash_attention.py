"""FlashAttention 2 (bundled in PyTorch or installed) and FlashAttention 3."""

from __future__ import annotations

import re

from ..dtypes import cpp_dtype
from ..kernel_name import KernelName, Part, once
from ..rules import Rule, apply, argument_part, find, sourced
from ..signature import Term

_NAMESPACES = {
    "pytorch_flash": "the FlashAttention-2 that PyTorch bundles",
    "flash": "FlashAttention, from a package",
    "cutlass": "CUTLASS, NVIDIA's templates for matrix kernels",
}
_EVEN = ("sequence fits the tile", "head fits the tile")
# The flags of flash_fwd_kernel by their number: later versions put new ones in between.
_FLAGS = {
    8: ("dropout", "causal", "local window", "ALiBi", *_EVEN, "soft cap", "returns the softmax"),
    7: ("dropout", "causal", "local window", "ALiBi", *_EVEN, "returns the softmax"),
    6: ("dropout", "causal", "local window", *_EVEN, "returns the softmax"),
    5: ("dropout", "causal", *_EVEN, "returns the softmax"),
}
_TRAITS = ("head dimension", "rows of Q in a tile", "rows of K and V in a tile", "warps")
_FORWARD_TRAITS = (*_TRAITS, "Q in registers", "Q and K share memory", "", "what it inherits")

# Without a namespace: FlashAttention 1, and version 2 called as its source files are.
_BARE = re.compile(
    r"flash_(?:fwd|bwd)_(?:splitkv_)?kernel(?:_(?:bf16|fp16|causal|cross|gqa|hdim\d+))*|fmha_(?:fwd_loop_kernel|bwd_dq_dk_dv_loop)\w*"
    r"|flash_(?:fwd|bwd)_hdim\d+_(?:bf16|fp16)_(?:causal_)?sm\d+"
)
# flash_fwd_launch_template.h, flash_bwd_launch_template.h and the kernels they start.
_VERSION_2 = sourced(
    "flash-attention 2, csrc/flash_attn/src/flash_fwd_launch_template.h and flash_bwd_launch_template.h",
    Rule("*flash_fwd_splitkv_combine_kernel", "reduction", "combines the parts of a split K/V sequence"),
    Rule("*flash_bwd_dot_do_o_kernel", "reduction", "row sums of dO times O"),
    Rule("*flash_bwd_clear_dkvaccum_kernel", "fill", "clears the sums of the gradients of K and V"),
    Rule("*flash_bwd_convert_dq_kernel|*flash_bwd_convert_dkv_kernel", "elementwise", "scales and rounds a gradient"),
    Rule(
        "*flash_fwd_splitkv_kernel*",
        "attention",
        "FlashAttention-2, forward, K/V split",
        (),
        ("tile and types",),
        "yes",
    ),
    Rule("*flash_fwd_kernel*|flash_fwd_hdim*", "attention", "FlashAttention-2, forward", tensor_cores="yes"),
    Rule("*fmha_fwd_loop_kernel*", "attention", "FlashAttention-1, forward", tensor_cores="yes", direction="forward"),
    Rule("*fmha_bwd_dq_dk_dv_loop*", "attention", "FlashAttention-1, backward", tensor_cores="yes"),
    Rule("*flash_bwd_dq_dk_dv_loop*_kernel", "attention", "FlashAttention-2, backward", (), ("tile and types",), "yes"),
)
# hopper/flash_fwd_launch_template.h and flash_bwd_launch_template.h: the class inside device_kernel decides.
_VERSION_3 = sourced(
    "flash-attention 3, hopper/flash_fwd_launch_template.h and flash_bwd_launch_template.h",
    Rule("flash::FlashAttnFwdCombine", "reduction", "combines the parts of a split K/V sequence"),
    Rule("flash::FlashAttnBwdPreprocess", "reduction", "row sums of dO times O"),
    Rule("flash::FlashAttnBwdPostprocess*", "elementwise", "scales and rounds a gradient"),
    Rule("flash::FlashAttnFwd*", "attention", "FlashAttention-3, forward", tensor_cores="yes"),
    Rule("flash::FlashAttnBwd*", "attention", "FlashAttention-3, backward", tensor_cores="yes"),
    Rule("flash::prepare_varlen_num_blocks_kernel", "index", "shares out sequences of different lengths"),
)


def decode(term: Term) -> KernelName | None:
    """Return what the name of a FlashAttention kernel says, or ``None`` if it is none."""
    if term.base.startswith("cutlass::device_kernel"):
        return _version_3(term)
    if term.base.startswith("flash::prepare"):
        rule = find(_VERSION_3, term.base)
        return apply(rule, term, "flash-attn", _NAMESPACES) if rule else None
    outer = term.base.rpartition("::")[0]
    if outer not in ("pytorch_flash", "flash", ""):
        return None
    rule = find(_VERSION_2, term.base)
    if rule is None or (not outer and not _BARE.fullmatch(term.base)):
        return None
    traits = term.arguments[0] if term.arguments else None
    if traits is not None and not traits.base.endswith("_kernel_traits"):
        # The backward helpers have flags before the traits.
        traits = next((one for one in term.arguments if one.base.endswith("_kernel_traits")), None)
    ours = outer == "pytorch_flash"
    if term.base.endswith("flash_fwd_kernel"):
        rule = rule._replace(labels=("tile and types", *_FLAGS.get(len(term.arguments) - 1, ())))
    decoded = apply(rule, term, "flash-attn", _NAMESPACES, **_of_traits(traits))
    if rule.role == "attention":
        decoded = decoded._replace(attention_backend="flash" if ours else "flash-attn-2", instruction="mma")
    return decoded._replace(parts=tuple(_with_traits(decoded.parts, traits)))


def _of_traits(traits: Term | None) -> dict[str, object]:
    if traits is None:
        return {}
    dtype = once(cpp_dtype(argument) for argument in traits.arguments if "_t" in argument.base)
    numbers = [argument.base for argument in traits.arguments[:3]]
    tile = f"{numbers[1]}x{numbers[2]}" if len(numbers) == 3 and all(map(str.isdigit, numbers)) else None
    return {"dtypes": dtype, "tile": tile, "arch": "sm80"}


def _with_traits(parts: tuple[Part, ...], traits: Term | None) -> list[Part]:
    """Return the parts with the traits taken apart."""
    told: list[Part] = []
    for part in parts:
        if traits is not None and part.text == traits.text:
            told.append(Part(traits.base, "the tile and types it was built for"))
            for place, argument in enumerate(traits.arguments):
                labels = _FORWARD_TRAITS if "fwd" in traits.base else _TRAITS
                told.append(argument_part(argument, labels[place] if place < len(labels) else ""))
        else:
            told.append(part)
    return told


def _version_3(term: Term) -> KernelName | None:
    for inner in term.walk():
        rule = find(_VERSION_3, inner.base)
        if rule is not None:
            break
    else:
        return None
    dtype = once(
        name for part in term.walk() if part.base.startswith("cutlass::") and (name := cpp_dtype(part)) is not None
    )
    decoded = apply(rule._replace(meaning="the entry point of CUTLASS 3"), term, "flash-attn", _NAMESPACES)
    sm90 = "Sm90" in inner.base or "enable_sm90" in term.text
    attention = rule.role == "attention"
    return decoded._replace(
        direction="backward" if "Bwd" in inner.base else "forward",
        dtypes=dtype[:1],
        arch="sm90" if sm90 else None,
        instruction="wgmma" if attention and sm90 else None,
        attention_backend="flash-attn-3" if attention else None,
        parts=(*decoded.parts[:2], Part(inner.base, rule.meaning), *_types_inside(inner)),
    )


def _types_inside(term: Term) -> list[Part]:
    """Return the parts of FlashAttention-3's types that say something to people."""
    known = {
        "CollectiveMainloopFwdSm90": "the main loop over K and V, on WGMMA and TMA",
        "CollectiveMainloopBwdSm90": "the main loop of the backward pass, on WGMMA and TMA",
        "CollectiveEpilogueFwd": "writes O and the log-sum-exp",
        "CollectiveEpilogueBwd": "writes the gradients of K and V",
    }
    parts = []
    for inner in term.walk():
        last = inner.base.rpartition("::")[2]
        meaning = known.get(last) or ("hands out tiles to thread blocks" if last.endswith("TileScheduler") else None)
        dtype = cpp_dtype(inner) if inner.base.startswith("cutlass::") else None
        if meaning or dtype:
            parts.append(Part(inner.base, meaning or dtype or ""))
    return list(dict.fromkeys(parts))
