"""Dropout whose mask follows from a key and a position in the layer: the same on every device and in any company."""

import numpy as np
import torch
from torch import Tensor, nn

# The multipliers of the well-known 32-bit finaliser of MurmurHash3, as signed numbers: products wrap around.
_FIRST, _SECOND = 0x85EBCA6B - 2**32, 0xC2B2AE35 - 2**32
_LAYER = 0x9E3779B9 - 2**32  # sets the layers of one model apart


class KeyedDropout(nn.Module):
    """Drops entries with probability p. `key` [jobs, 2] says which; rows of the input belong to the jobs in turn."""

    key: Tensor

    def __init__(self, p: float, layer: int) -> None:
        super().__init__()
        self.p, self.layer = p, layer
        self.register_buffer("key", torch.zeros(1, 2, dtype=torch.int32), persistent=False)

    def forward(self, values: Tensor) -> Tensor:
        """Keep each entry with probability 1 − p, scaled by 1/(1 − p)."""
        if not self.training or self.p == 0:
            return values
        if self.p >= 1:
            return torch.zeros_like(values)
        bits = keyed_bits(self.key, self.layer, values.numel() // len(self.key))
        keep = bits.view(values.shape) >= int(self.p * 2**32) - 2**31
        return torch.where(keep, values * (1 / (1 - self.p)), 0)

    def extra_repr(self) -> str:
        """Show p, like nn.Dropout."""
        return f"p={self.p}, layer={self.layer}"


def keyed_bits(key: Tensor, layer: int, entries: int) -> Tensor:
    """Return 32 random bits, as signed numbers, for every entry of a layer and every key [jobs, 2]: [jobs, entries].

    A counter run twice through a mixing function, each time with half of the key: no state, so order cannot matter.
    """
    counter = torch.arange(entries, dtype=torch.int32, device=key.device)
    return _mixed(_mixed(counter[None] + (key[:, :1] ^ layer_offset(layer))) ^ key[:, 1:])


def layer_offset(layer: int) -> int:
    """Return the 32 bits, as a signed number, that set a layer apart from the others."""
    return (layer * _LAYER + 2**31) % 2**32 - 2**31


def _mixed(bits: Tensor) -> Tensor:
    # The masks make the shifts those of unsigned numbers.
    bits = (bits ^ ((bits >> 16) & 0xFFFF)) * _FIRST
    bits = (bits ^ ((bits >> 13) & 0x7FFFF)) * _SECOND
    return bits ^ ((bits >> 16) & 0xFFFF)


def draw_keys(rng: np.random.Generator, steps: int) -> np.ndarray:
    """Draw one key for every step, [steps, 2]."""
    return rng.integers(0, 2**32, size=(steps, 2), dtype=np.uint32).view(np.int32)


def key_dropout(module: nn.Module) -> nn.Module:
    """Replace every nn.Dropout inside a module by a keyed one, in place."""
    found = [
        (parent, name)
        for parent in module.modules()
        for name, child in parent.named_children()
        if type(child) is nn.Dropout
    ]
    for layer, (parent, name) in enumerate(found):
        setattr(parent, name, KeyedDropout(getattr(parent, name).p, layer))
    return module


def set_key(module: nn.Module, key: np.ndarray) -> None:
    """Give all dropout layers the key [2] of the coming step."""
    for layer in module.modules():
        if isinstance(layer, KeyedDropout):
            layer.key = torch.from_numpy(key[None])
