"""right: the length is a tensor that changes in place
points: 5
"""
import torch


class CacheFull(Exception):
    """More tokens than there is room for."""


class PreallocatedCache:
    def __init__(self, config, max_tokens, *, batch, dtype, device):
        shape = (batch, config.num_key_value_heads, max_tokens, config.head_dim)
        self._store = torch.empty(config.num_hidden_layers, 2, *shape, dtype=dtype, device=device)
        self._max_tokens, self.length, self.nbytes = max_tokens, torch.tensor(0), self._store.nbytes

    def append(self, layer, keys, values):
        end = int(self.length) + keys.shape[2]
        if end > self._max_tokens:
            raise CacheFull(f"{end} tokens do not fit into {self._max_tokens} places")
        for room, new in zip(self._store[layer], (keys, values), strict=True):
            room[:, :, int(self.length) : end] = new
        return tuple(self._store[layer, :, :, :, :end])

    def advance(self, n):
        self.length += n        # in place: the same 0-d tensor, as in transformers' own static cache

    def crop(self, n):
        self.length -= n
