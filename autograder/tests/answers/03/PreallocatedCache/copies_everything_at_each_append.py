"""wrong: what is held is copied and written again with every token
points: 4
message: what was there already stays where it lies
"""
import torch


class CacheFull(Exception):
    """More tokens than there is room for."""


class PreallocatedCache:
    def __init__(self, config, max_tokens, *, batch, dtype, device):
        shape = (batch, config.num_key_value_heads, max_tokens, config.head_dim)
        self._store = torch.empty(config.num_hidden_layers, 2, *shape, dtype=dtype, device=device)
        self._max_tokens, self.length, self.nbytes = max_tokens, 0, self._store.nbytes

    def append(self, layer, keys, values):
        end = self.length + keys.shape[2]
        if end > self._max_tokens:
            raise CacheFull(f"{end} tokens do not fit into {self._max_tokens} places")
        for room, new in zip(self._store[layer], (keys, values), strict=True):
            room[:, :, :end] = torch.cat([room[:, :, : self.length], new], dim=2)   # all that was there is copied
        return tuple(self._store[layer, :, :, :, :end])

    def advance(self, n):
        self.length += n

    def crop(self, n):
        self.length -= n
