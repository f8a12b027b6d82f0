"""What touches every weight or value once, in one go on a GPU: the SGD step of many jobs, and the ReLU of a sum."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit
def _stepped(weights, velocity, gradient, rates, momenta, decays, number, BLOCK: tl.constexpr):
    job = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = at < number
    place = job * number + at
    w = tl.load(weights + place, mask=there)
    v = tl.load(velocity + place, mask=there)
    g = tl.load(gradient + place, mask=there)
    v = tl.load(momenta + job) * v + g + tl.load(decays + job) * w
    tl.store(velocity + place, v, mask=there)
    tl.store(weights + place, w - tl.load(rates + job) * v, mask=there)


def stepped(
    weights: Tensor, velocity: Tensor, gradient: Tensor, rates: Tensor, momenta: Tensor, decays: Tensor
) -> None:
    """Change weights and velocity [jobs, …] in place: v ← m v + g + d w, w ← w − η v; η, m and d are [jobs]."""
    jobs, number = len(weights), weights[0].numel()
    _stepped[(triton.cdiv(number, BLOCK), jobs)](
        weights, velocity, gradient.contiguous(), rates, momenta, decays, number, BLOCK
    )


@triton.jit
def _relu_of_sum(one, other, target, number, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = at < number
    total = tl.load(one + at, mask=there).to(tl.float32) + tl.load(other + at, mask=there).to(tl.float32)
    tl.store(target + at, tl.maximum(total, 0.0).to(target.dtype.element_ty), mask=there)


class _ReLUOfSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, one, other):
        found = torch.empty_like(one)
        _relu_of_sum[(triton.cdiv(one.numel(), BLOCK),)](one, other, found, one.numel(), BLOCK)
        ctx.save_for_backward(found)
        return found

    @staticmethod
    def backward(ctx, back):
        (found,) = ctx.saved_tensors
        own = torch.ops.aten.threshold_backward(back, found, 0)
        return own, own


def relu_of_sum(one: Tensor, other: Tensor) -> Tensor:
    """Return the positive part of the sum of two contiguous tensors."""
    found: Tensor = _ReLUOfSum.apply(one, other)
    return found
