"""right: one tensor per layer with the tokens first, slots of a subclass, narrow and copy_
points: 5
"""
import torch


class CacheFull(RuntimeError):
    pass


class Layer:
    __slots__ = ("keys", "values")

    def __init__(self, *shape, **options):
        self.keys, self.values = (torch.zeros(shape, **options) for _ in range(2))


class PreallocatedCache:
    def __init__(self, config, max_tokens, *, batch, dtype, device):
        heads, size = config.num_key_value_heads, config.head_dim
        self._layers = {
            i: Layer(max_tokens, batch, heads, size, dtype=dtype, device=device)
            for i in range(config.num_hidden_layers)
        }
        self._free = max_tokens
        self._used = 0

    @property
    def length(self):
        return self._used

    @property
    def nbytes(self):
        return sum(layer.keys.numel() * layer.keys.element_size() * 2 for layer in self._layers.values())

    def append(self, layer, keys, values):
        new = keys.size(2)
        if new > self._free:
            raise CacheFull(f"{new} tokens for {self._free} free places")
        mine, filled = self._layers[layer], self._used + new
        mine.keys.narrow(0, self._used, new).copy_(keys.permute(2, 0, 1, 3))
        mine.values.narrow(0, self._used, new).copy_(values.permute(2, 0, 1, 3))
        return mine.keys[:filled].permute(1, 2, 0, 3), mine.values[:filled].permute(1, 2, 0, 3)

    def advance(self, n):
        self._used += n
        self._free -= n

    def crop(self, n):
        self.advance(-n)
