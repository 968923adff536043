"""wrong: what append returns is gathered into a new place
points: 4
message: a copy
"""
import torch


class CacheFull(Exception):
    pass


class PreallocatedCache:
    def __init__(self, config, max_tokens, *, batch, dtype, device):
        shape = (config.num_hidden_layers, batch, config.num_key_value_heads, max_tokens, config.head_dim)
        self.keys = torch.empty(shape, dtype=dtype, device=device)
        self.values = torch.empty(shape, dtype=dtype, device=device)
        self.length = 0

    @property
    def nbytes(self):
        return self.keys.nbytes + self.values.nbytes

    def append(self, layer, keys, values):
        end = self.length + keys.shape[2]
        if end > self.keys.shape[3]:
            raise CacheFull(f"{self.keys.shape[3]} tokens are the most")
        self.keys[layer, :, :, self.length : end] = keys
        self.values[layer, :, :, self.length : end] = values
        filled = torch.arange(end, device=self.keys.device)
        return self.keys[layer].index_select(2, filled), self.values[layer].index_select(2, filled)

    def advance(self, n):
        self.length += n

    def crop(self, n):
        self.length -= n
