"""Weights of convolutions, from PyTorch's order to the kernels' and back, by tiles: both are read in rows."""

import triton
import triton.language as tl
from torch import Tensor

OUT, IN = 32, 64  # of a tile: channels out, and channels in by taps


@triton.jit
def _turned(
    flat, param, numbers, start, I, O, TAPS: tl.constexpr, TO_FLAT: tl.constexpr,
    OUT: tl.constexpr, IN: tl.constexpr,
):  # fmt: skip
    """Copy flat [jobs, numbers], from `start` on as [out, in, taps], to param [jobs, taps, in, out], or back."""
    job = tl.program_id(2).to(tl.int64)
    o = tl.program_id(0) * OUT + tl.arange(0, OUT)
    r = tl.program_id(1) * IN + tl.arange(0, IN)
    in_flat = flat + job * numbers + start + (o[:, None] * (I * TAPS) + r[None, :])
    in_param = param + job * O * I * TAPS + ((r % TAPS * I + r // TAPS)[:, None] * O + o[None, :])
    if TO_FLAT:
        values = tl.load(in_param, mask=(r < I * TAPS)[:, None] & (o < O)[None, :])
        tl.store(in_flat, tl.trans(values), mask=(o < O)[:, None] & (r < I * TAPS)[None, :])
    else:
        values = tl.load(in_flat, mask=(o < O)[:, None] & (r < I * TAPS)[None, :])
        tl.store(in_param, tl.trans(values), mask=(r < I * TAPS)[:, None] & (o < O)[None, :])


def turned(flat: Tensor, start: int, param: Tensor, *, to_flat: bool) -> None:
    """Copy flat weights [jobs, P], from `start` on, to a parameter [jobs, down, across, in, out], or back."""
    jobs, down, across, inputs, outputs = param.shape
    grid = (triton.cdiv(outputs, OUT), triton.cdiv(inputs * down * across, IN), jobs)
    _turned[grid](flat, param, flat.shape[1], start, inputs, outputs, down * across, to_flat, OUT, IN)
