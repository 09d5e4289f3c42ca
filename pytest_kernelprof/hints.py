"""Known causes of what profiles show, each with its cure: the hints under a failure.

A hint is given only where its pattern holds for an event that the failure is about. Patterns read
what the trace says (ops, kernels, copies, synchronisations) and, where one more call told, the
inputs of the call. ``docs/hints.md`` has a section for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from .errors import MisuseError
from .events import Call, Event, Kernel, Memcpy, Op
from .model import Environment, Step
from .names import COPY_ROLES
from .sites import GRAPH_BREAK, Place, Site

PAGE = "docs/hints.md"
DRIVER_ALLOCATIONS = "driver_allocations"
SDPA_BACKEND = "sdpa_backend"
MATH_SDPA_OP = "aten::_scaled_dot_product_attention_math"
"""The op in which SDPA runs op by op; that of some devices has a longer name."""


class Hint(NamedTuple):
    """A known cause and its cure.

    Attributes:
        cause: What happens, in one sentence without its full stop.
        cure: What helps against it, likewise.
        link: Where to read more; may be empty.
    """

    cause: str
    cure: str
    link: str = ""

    def __str__(self) -> str:
        return f"hint: {self.cause}; {self.cure}" + (f" ({self.link})" if self.link else "")


@dataclass(slots=True, kw_only=True)
class Scene:
    """What a failure is seen in.

    Attributes:
        steps: The measured steps.
        environment: Where they were recorded.
        places: Where events come from, as far as that is known.
        tf32_off: Whether float32 matmuls were kept from tensor cores; ``None`` if nobody knows.
        topic: What was asked for, where a pattern depends on it.
    """

    steps: Sequence[Step] = ()
    environment: Environment = field(default_factory=Environment)
    places: Mapping[Event, Place | None] = field(default_factory=dict)
    tf32_off: bool | None = None
    topic: str = ""
    _before: dict[Op, str] = field(default_factory=dict)
    _waiting: set[Op] | None = None
    _fused: bool | None = None

    def before(self, op: Op) -> str | None:
        """Return the op that was called right before one, by name; ops inside others do not count."""
        if not self._before:
            for step in self.steps:
                last: dict[int, str] = {}
                for one in step.ops.seen:
                    depth = len(one.chain)
                    self._before[one] = last.get(depth, "")
                    last[depth] = one.name
        return self._before.get(op)

    @property
    def fused(self) -> bool:
        """Whether an optimizer ran fused; that counts its steps in an op of its own."""
        if self._fused is None:
            self._fused = any(op.name.startswith("aten::_fused_") for step in self.steps for op in step.ops.seen)
        return self._fused

    def may_wait(self, event: Event) -> bool:
        """Return whether an event makes the CPU wait, or would on a GPU.

        Beside a GPU, an op without a synchronisation works on a tensor of the CPU's.
        """
        if not isinstance(event, Op):
            return True
        if self._waiting is None:
            syncs = [sync for step in self.steps for sync in step.host_syncs.seen]
            self._waiting = {op for sync in syncs for op in sync.chain}
        watched = any(step.kernels.seen for step in self.steps)
        return not watched or event in self._waiting

    def site(self, event: Event) -> Site | None:
        """Return the line of Python of an event, if it is known."""
        place = self.places.get(event)
        return place.site if place else None


class Cause(NamedTuple):
    """One row of the table.

    Attributes:
        name: Its section on the page of hints.
        find: Returns the sentence if the pattern holds for an event; ``None`` otherwise.
        cure: What helps.
        source: Where it is known from.
    """

    name: str
    find: Callable[[Event, Scene], str | None]
    cure: str
    source: str

    def hint(self, sentence: str) -> Hint:
        """Return it as a hint."""
        return Hint(sentence, self.cure, f"{PAGE}#{self.name}")


def hints_for(events: Iterable[Event], scene: Scene) -> list[Hint]:
    """Return a hint for each cause whose pattern holds for one of the events, in the order of the table."""
    found: dict[str, str] = {}
    left = list(CAUSES)
    for event in _with_inner(list(events), scene):
        for cause in list(left):
            sentence = cause.find(event, scene)
            if sentence:
                found[cause.name] = sentence
                left.remove(cause)
    if scene.topic == DRIVER_ALLOCATIONS:
        return [NO_FREE_BLOCK.hint("the caching allocator had no free block of the size that was asked for")]
    return [cause.hint(found[cause.name]) for cause in CAUSES if cause.name in found]


def _with_inner(events: list[Event], scene: Scene) -> Iterator[Event]:
    """Yield events, and after them the ops inside those that are ops: what an op does is done by these."""
    yield from events
    outer = {event for event in events if isinstance(event, Op)}
    if outer:
        for step in scene.steps:
            yield from (op for op in step.ops.seen if op not in outer and not outer.isdisjoint(op.chain))


def checked(answer: Any, source: str) -> list[Hint]:
    """Return the hints that a hook gave for an event: none, one, or a list of them.

    Raises:
        MisuseError: It gave something else.
    """
    if answer is None:
        return []
    given = list(answer) if isinstance(answer, (list, tuple)) and not isinstance(answer, Hint) else [answer]
    if not all(isinstance(one, Hint) and all(isinstance(text, str) for text in one) for one in given):
        raise MisuseError(f"{source} returned {answer!r}; accepted: a Hint, a list of Hints, or None")
    return [Hint(*(" ".join(text.split()) for text in one)) for one in given]


# What patterns ask


def _ops(event: Event) -> tuple[str, ...]:
    """Return the names of the ops around an event, outermost first; of an op, its own last."""
    own = (event.name,) if isinstance(event, Op) else ()
    return (*(op.name for op in event.chain), *own)


_GENERATED_NODE = re.compile(r"\w+Backward\d+")
"""Backward nodes of torch's own ops; those of autograd functions that somebody wrote have no number."""


def _called(event: Event) -> tuple[str, ...]:
    """Return torch's ops around an event that somebody called: none in the backward pass of torch's own ops."""
    ops = _ops(event)
    if any(_GENERATED_NODE.fullmatch(op) for op in ops):
        return ()
    return tuple(op for op in ops if op.startswith("aten::"))


def _short(op: str) -> str:
    return op.rpartition("::")[2]


def _is_copy(event: Event) -> bool:
    """Return whether something was copied on the GPU, or an op that copies was called."""
    if isinstance(event, Memcpy):
        return event.kind in ("DtoD", None)
    if isinstance(event, Kernel):
        return event.decoded.role in COPY_ROLES
    return isinstance(event, Op)


def _waits(event: Event) -> bool:
    """Return whether it is a wait of the CPU, a copy to it, or an op."""
    return isinstance(event, (Call, Op)) or (isinstance(event, Memcpy) and event.kind == "DtoH")


def _follows(ops: Sequence[str], first: str, second: str) -> bool:
    return (first, second) in pairwise(ops)


def _in_math_sdpa(ops: Sequence[str]) -> bool:
    return any(op.startswith(MATH_SDPA_OP) for op in ops)


_TENSOR = re.compile(r"(?:\w+=)?(\w+)\[([\d, ]*)\]")


def _tensors(site: Site | None) -> list[tuple[str, tuple[int, ...]]]:
    """Return data type and shape of each tensor that a call was given."""
    found = [_TENSOR.fullmatch(text) for text in site.inputs] if site else []
    return [(one[1], tuple(map(int, one[2].split(", "))) if one[2] else ()) for one in found if one]


# The patterns


def _masked_fill(event: Event, scene: Scene) -> str | None:
    ops = _called(event)
    if ops[:1] != ("aten::masked_fill",) or ops[1:2] not in ((), ("aten::clone",)) or not _is_copy(event):
        return None
    if len(ops) == 1 and not isinstance(event, Op):
        return None
    tensors = _tensors(scene.site(event))
    if len(tensors) > 1 and _enlarges(tensors[1][1], tensors[0][1]):
        return None  # The mask makes the result larger than the input: that cannot be done in place.
    return "masked_fill copies its input"


def _enlarges(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return whether broadcasting *other* with *shape* makes it larger."""
    pairs = zip(reversed(shape), reversed(other), strict=False)
    return len(shape) > len(other) or any(one > 1 and size == 1 for one, size in pairs)


_SIZED_BY_DATA = {
    "aten::nonzero": "nonzero",
    "aten::masked_select": "masked_select",
    "aten::_unique2": "unique",
    "aten::unique_dim": "unique",
    "aten::unique_consecutive": "unique_consecutive",
    "aten::repeat_interleave": "repeat_interleave",
}


def _nonzero(event: Event, scene: Scene) -> str | None:
    ops = _called(event)
    found = next((op for op in ops if op in _SIZED_BY_DATA), None)
    if found is None or not _waits(event) or not scene.may_wait(event):
        return None
    if isinstance(event, Op) and found == "aten::repeat_interleave":
        return None  # With output_size= it does not wait.
    what = _SIZED_BY_DATA[found]
    if ops[0] in _CALLERS:
        what = _CALLERS[ops[0]]
    return f"the size of what {what} returns depends on the data: {_WAITS[isinstance(event, Op)]} to count"


_CALLERS = {
    **dict.fromkeys(("aten::index", "aten::index_put_"), "indexing with a boolean mask"),
    "aten::where": "torch.where(mask)",
}
_WAITS = ("the CPU waits for the GPU", "on a GPU the CPU waits for it")
_ASKS = {"aten::is_nonzero": "the truth value of a tensor", "aten::item": "item() or a conversion to a number"}


def _item(event: Event, scene: Scene) -> str | None:
    ops = _called(event)
    if not _waits(event) or not {"aten::_local_scalar_dense", "aten::item", "aten::is_nonzero"} & set(ops):
        return None
    if not scene.may_wait(event) or _nonzero(event, scene) is not None:
        return None
    if ops[0].startswith(("aten::_fused_", "aten::_foreach_")):
        return None  # Those of optimizers read what lies on the CPU anyway.
    what = _ASKS.get(ops[0]) or _short(ops[0])
    return f"{what} asks for one value: {_WAITS[isinstance(event, Op)]}"


def _host_copy(event: Event, scene: Scene) -> Memcpy | None:
    """Return the copy from or to the host that an event is, or that it waits for."""
    ops = _ops(event)
    if not ops or {"aten::_local_scalar_dense", *_SIZED_BY_DATA} & set(ops):
        return None
    if isinstance(event, Memcpy):
        return event if event.kind in ("HtoD", "DtoH") else None
    if not isinstance(event, Call):
        return None
    copies = (copy for step in scene.steps for copy in step.memcpys.seen if copy.kind in ("HtoD", "DtoH"))
    return next((copy for copy in copies if copy.chain[-1:] == event.chain[-1:]), None)


def _pageable(event: Event, scene: Scene) -> str | None:
    copy = _host_copy(event, scene)
    if copy is None or not copy.pageable:
        return None
    where = "from" if copy.kind == "HtoD" else "to"
    return f"the CPU waits for a copy {where} pageable host memory, with non_blocking=True as well"


def _blocking(event: Event, scene: Scene) -> str | None:
    if not isinstance(event, Call):
        return None
    copy = _host_copy(event, scene)
    if copy is None or copy.pageable is not False:
        return None
    return "a copy from or to pinned host memory waits for its end unless it is told not to"


_REORDERING = ("aten::contiguous", "aten::reshape", "aten::flatten")


def _contiguous(event: Event, _: Scene) -> str | None:
    ops = _called(event)
    if not _is_copy(event) or "aten::clone" not in ops or ops[0] not in _REORDERING:
        return None
    what = _short(ops[0])
    return f"{what} copies, since its input lies in memory in another order (transposed, expanded, sliced)"


_CASTS = {
    "float": "float32",
    "half": "float16",
    "double": "float64",
    "bfloat16": "bfloat16",
    "bool": "bool",
    "int": "int32",
    "long": "int64",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
}
_DTYPE = re.compile(r"(?:dtype=)?((?:float|bfloat|int|uint|complex)\d\w*|bool)")


def _cast(site: Site | None) -> str | None:
    """Return from which data type to which a call casts, if it is one that does."""
    tensors = _tensors(site)
    if site is None or not tensors:
        return None
    named = [found[1] for text in site.inputs if (found := _DTYPE.fullmatch(text))]
    likened = [dtype for dtype, _ in tensors[1:]] if site.call in ("to", "type_as") else []
    goals = [_CASTS[site.call]] if site.call in _CASTS else [*named, *likened]
    return f"{tensors[0][0]} to {goals[0]}" if goals and goals[0] != tensors[0][0] else None


def _upcast(event: Event, scene: Scene) -> str | None:
    ops = _ops(event)
    if _in_math_sdpa(ops) or not _follows(ops, "aten::to", "aten::_to_copy"):
        return _promoted(event, scene)
    site = scene.site(event)
    if isinstance(event, Kernel):
        if not _casts(event):
            return None
    elif not isinstance(event, Op):
        return None
    outer = [op for op in ops[: ops.index("aten::_to_copy") - 1] if op.startswith("aten::") and op != "aten::to"]
    if outer:
        called = _short(outer[-1])
        # On a CPU the op of a number (x + 1) casts that number in the same way.
        why = "autocast, its dtype=, or the way it is written"
        return f"{called} casts its input first ({why})" if called in _CASTING else None
    if "ToCopyBackward0" in ops:
        return "the backward pass of a cast casts back"
    what = _cast(site)
    if what is None and not isinstance(event, Kernel):
        return None
    return f"a cast{f' of {what}' if what else ''} reads and writes the whole tensor"


_CASTING = (
    *("linear", "matmul", "mm", "mv", "bmm", "addmm", "baddbmm", "addbmm", "einsum", "scaled_dot_product_attention"),
    *("conv1d", "conv2d", "conv3d", "convolution", "_convolution", "conv_transpose2d", "lstm_cell", "gru_cell"),
    *("softmax", "log_softmax", "layer_norm", "native_layer_norm", "group_norm", "rms_norm", "norm", "exp", "log"),
    *("rsqrt", "nll_loss", "cross_entropy_loss", "kl_div", "mse_loss", "l1_loss", "cosine_similarity", "cdist"),
)
"""Ops that autocast casts for, or that take ``dtype=``.

Source:
    torch, ``autocast_mode.h``: the lists for 16 bits and for float32.
"""


def _casts(kernel: Kernel) -> bool:
    """Return whether a copy kernel changes the data type.

    Source:
        ATen, ``CUDALoops.cuh``: kernels without a cast are called ``gpu_kernel_impl_nocast``; with one,
        ``unrolled_elementwise_kernel`` takes ``LoadWithCast``. ``Copy.cu`` names casts to 16 bits
        ``bfloat16_copy_kernel_cuda`` and ``float16_copy_kernel_cuda``.
    """
    if kernel.decoded.role != "copy" or "nocast" in kernel.name:
        return False
    return len(kernel.decoded.dtypes) > 1 or "unrolled_elementwise_kernel" in kernel.name or "WithCast" in kernel.name


_WIDTHS = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


_ARITHMETIC = ("aten::add", "aten::sub", "aten::rsub", "aten::mul", "aten::div", "aten::maximum", "aten::minimum")


def _promoted(event: Event, scene: Scene) -> str | None:
    """Return that a tensor of a wider type makes the result as wide; numbers and tensors without shape do not."""
    if not isinstance(event, (Kernel, Op)) or len(_ops(event)) != 1 or _ops(event)[0] not in _ARITHMETIC:
        return None
    tensors = [(dtype, shape) for dtype, shape in _tensors(scene.site(event)) if dtype in _WIDTHS and shape]
    if len(tensors) < 2:
        return None
    narrow = min(tensors, key=lambda one: _WIDTHS[one[0]])
    wide = max(tensors, key=lambda one: _WIDTHS[one[0]])
    if _WIDTHS[wide[0]] == _WIDTHS[narrow[0]]:
        return None
    return f"a {wide[0]} operand of shape {list(wide[1])} makes the result of {narrow[0]} {wide[0]} too"


def _math_sdpa(event: Event, scene: Scene) -> str | None:
    if not _in_math_sdpa(_ops(event)):
        return None
    site = scene.site(event)
    why = f" ({'; '.join(site.why_not_fused)})" if site and site.why_not_fused else ""
    return f"SDPA took its math implementation, op by op{why}"


_DISABLED = "disabled"


def _not_fused(event: Event, scene: Scene) -> str | None:
    """Return what torch said against the implementations that it did not take.

    If nobody asked for one, only what kept a fallback from flash: what the user switched off is no surprise.
    """
    site = scene.site(event)
    if not isinstance(event, Kernel) or site is None or _in_math_sdpa(_ops(event)):
        return None
    whys = site.why_not_fused
    if scene.topic != SDPA_BACKEND:
        fell_back = any("_efficient_attention" in op for op in _ops(event))
        whys = tuple(why for why in whys if why.startswith("flash") and _DISABLED not in why) if fell_back else ()
    return f"SDPA could not take another implementation ({'; '.join(whys)})" if whys else None


def _tf32(event: Event, scene: Scene) -> str | None:
    if not isinstance(event, Kernel) or scene.tf32_off is not True or _in_math_sdpa(_ops(event)):
        return None
    name = event.decoded
    if name.role != "gemm" or name.dtypes != ("fp32",) or name.tensor_cores != "no":
        return None
    if not _is_ampere_or_later(scene.environment):
        return None
    return "float32 matmuls run on CUDA cores while TF32 is off"


def _is_ampere_or_later(where: Environment) -> bool:
    major = (where.compute_capability or "").partition(".")[0]
    return where.vendor == "nvidia" and major.isdecimal() and int(major) >= 8


_ALIGN = re.compile(r"align([124])(?!\d)")
_ROW_BYTES = 16


def _alignment(event: Event, scene: Scene) -> str | None:
    if not isinstance(event, Kernel) or event.decoded.role != "gemm":
        return None
    found = _ALIGN.search(event.name)
    if found is None or not {"fp16", "bf16"} & set(event.decoded.dtypes):
        return None
    matrices = [shape for dtype, shape in _tensors(scene.site(event)) if len(shape) > 1 and dtype in _WIDTHS]
    # Rows are as long as the last dimension, of transposed matrices as the one before.
    odd = _odd(shape[-1] for shape in matrices) or _odd(shape[-2] for shape in matrices)
    if matrices and not odd:
        return None
    whose = f"{' and '.join(map(str, odd))} is no multiple of 8: " if odd else ""
    return f"{whose}rows are not aligned to 16 bytes, so that a slower kernel runs (align{found[1]})"


def _odd(sizes: Iterable[int]) -> list[int]:
    return sorted({size for size in sizes if size % (_ROW_BYTES // 2)})


_CONVERSION = re.compile(r"nchw_?to_?nhwc|nhwc_?to_?nchw", re.IGNORECASE)


def _layout(event: Event, _: Scene) -> str | None:
    if not isinstance(event, Kernel) or not _CONVERSION.search(event.name):
        return None
    return "cuDNN converts between NCHW and NHWC around a convolution, in every call"


_FUSABLE = re.compile(r"Optimizer\.step#(Adam|AdamW|SGD)\.step")


_UPDATES = ("add_", "mul_", "lerp_", "addcmul_", "addcdiv_", "sqrt", "div", "div_")


def _optimizer(event: Event, scene: Scene) -> str | None:
    found = next((one for region in event.regions if (one := _FUSABLE.fullmatch(region))), None)
    ops = _called(event)
    if found is None or not ops or not isinstance(event, (Kernel, Op)):
        return None
    if _short(ops[0]) not in _UPDATES and not ops[0].startswith("aten::_foreach_"):
        return None  # Of a closure.
    return f"{found[1]} updates parameters op by op, each in kernels of its own" if not scene.fused else None


def _graph_break(event: Event, scene: Scene) -> str | None:
    site = scene.site(event)
    if site is None or site.call != GRAPH_BREAK:
        return None
    return f"a graph break at line {site.line} cuts {site.function.partition(',')[0]} into several graphs"


_TRIANGLES = ("aten::triu", "aten::tril", "aten::triu_", "aten::tril_", "aten::triu_indices", "aten::tril_indices")
_FACTORIES = tuple(
    f"aten::{name}" for name in ("ones", "ones_like", "new_ones", "full", "full_like", "new_full", "fill_")
)


def _mask(event: Event, scene: Scene) -> str | None:
    if not isinstance(event, (Kernel, Op)):
        return None
    around = (*event.chain, event) if isinstance(event, Op) else event.chain
    outer = next((op for op in around if op.name.startswith("aten::")), None)
    if outer is None or outer.name not in _TRIANGLES:
        return None
    if not outer.name.endswith("indices") and scene.before(outer) not in _FACTORIES:
        return None  # A triangle of data is no mask.
    return f"{_short(outer.name)} builds a mask in every call"


NO_FREE_BLOCK = Cause(
    "driver_allocations",
    lambda _event, _scene: None,
    "warm up with the largest shapes, and call no torch.cuda.empty_cache() in a step",
    "torch, CUDACachingAllocator.cpp: the driver is asked only where no cached block fits",
)

CAUSES = (
    Cause(
        "masked_fill",
        _masked_fill,
        "masked_fill_ works in place, where the input is not needed again",
        "torch, TensorAdvancedIndexing.cpp: masked_fill clones its input, then calls masked_fill_",
    ),
    Cause(
        "nonzero",
        _nonzero,
        "torch.where(mask, a, b) keeps shapes; repeat_interleave takes output_size=, and there is nonzero_static",
        "torch, Nonzero.cu and Repeat.cu: the count is copied to the host; pytorch/pytorch#12461",
    ),
    Cause(
        "item",
        _item,
        "keep the value on the GPU (torch.where, tensors in place of numbers), or ask for it once, after the loop",
        "torch, cuda/CUDAScalar.cu: _local_scalar_dense copies and synchronises the stream",
    ),
    Cause(
        "pageable",
        _pageable,
        "pin_memory() the tensor on the host and copy with non_blocking=True, or make it on the GPU",
        "CUDA Runtime API, API synchronization behavior: pageable memory is staged; pytorch/pytorch#39694",
    ),
    Cause(
        "blocking_copy",
        _blocking,
        "copy with non_blocking=True, and synchronise before the CPU reads what was copied to it",
        "torch, cuda/Copy.cu: without non_blocking the stream is synchronised after the copy",
    ),
    Cause(
        "contiguous",
        _contiguous,
        "leave the call out where the next op takes strides (matmul, SDPA), or make the tensor in that order",
        "torch, TensorProperties.cpp and TensorShape.cpp: contiguous and reshape clone what is not in order",
    ),
    Cause(
        "upcast",
        _upcast,
        "keep one data type, or cast once outside the step",
        "torch, autocast_mode.cpp (cached_cast) and TensorConversions.cpp (_to_copy)",
    ),
    Cause(
        "math_sdpa",
        _math_sdpa,
        "give it what a fused implementation takes, or pin one with sdpa_kernel() so that it cannot fall back",
        "torch, transformers/attention.cpp and cuda/sdp_utils.cpp; pytorch/pytorch#100326",
    ),
    Cause(
        "sdpa_backend",
        _not_fused,
        "give SDPA what the implementation takes, or pin it with sdpa_kernel() so that it cannot fall back",
        "torch, transformers/cuda/sdp_utils.cpp: torch.backends.cuda.can_use_* with debug=True",
    ),
    Cause(
        "tf32",
        _tf32,
        'torch.set_float32_matmul_precision("high") lets tensor cores round to 10 bits of mantissa; or use 16 bits',
        "torch, CUDA semantics: TensorFloat-32 on Ampere and later devices",
    ),
    Cause(
        "alignment",
        _alignment,
        "pad the dimension to a multiple of 8",
        "NVIDIA, Matrix Multiplication Background: tensor cores and alignment to 16 bytes; m87-labs/kestrel#143",
    ),
    Cause(
        "channels_last",
        _layout,
        "put model and input into torch.channels_last",
        "NVIDIA, Convolutional Layers: tensor layouts; tensorflow/benchmarks#237",
    ),
    Cause(
        "optimizer",
        _optimizer,
        "give the optimizer fused=True",
        "torch.optim: Adam, AdamW and SGD have fused implementations",
    ),
    Cause(
        "graph_break",
        _graph_break,
        "torch.compile(fullgraph=True) says what breaks it: item(), print, or a function that is not traced",
        "torch, resume_execution.py: what follows a break is a function of its own; pytorch/torchdynamo#679",
    ),
    NO_FREE_BLOCK,
    Cause(
        "mask",
        _mask,
        "build it once (register_buffer), or use is_causal=True of a fused SDPA",
        "findings of the attention examples: ones and tril in every call of math SDPA",
    ),
)
"""Every cause, in the order in which hints are shown."""
