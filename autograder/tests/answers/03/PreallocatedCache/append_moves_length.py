"""wrong: the last layer's append already moves the length, as in a cache of one layer, and advance again
points: 1
message: append stores, and only advance counts them
"""
import torch


class CacheFull(Exception):
    pass


class PreallocatedCache:
    def __init__(self, config, max_tokens, *, batch, dtype, device):
        shape = (2, config.num_hidden_layers, batch, config.num_key_value_heads, max_tokens, config.head_dim)
        self.store = torch.empty(shape, dtype=dtype, device=device)
        self.length, self.nbytes = 0, self.store.untyped_storage().nbytes()

    def append(self, layer, keys, values):
        end = self.length + keys.shape[-2]
        if end > self.store.shape[-2]:
            raise CacheFull
        self.store[0, layer, :, :, self.length : end], self.store[1, layer, :, :, self.length : end] = keys, values
        if layer == len(self.store[0]) - 1:
            self.length = end
        return self.store[0, layer, :, :, :end], self.store[1, layer, :, :, :end]

    def advance(self, n):
        self.length += n

    def crop(self, n):
        self.length = max(0, self.length - n)
