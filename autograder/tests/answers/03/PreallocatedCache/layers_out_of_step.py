"""wrong: append itself moves the length on, so each layer writes behind the one before
points: 1
message: layer 1 gave back 18 tokens
"""
import torch


class CacheFull(Exception):
    pass


class PreallocatedCache:
    def __init__(self, config, max_tokens, *, batch, dtype, device):
        shape = (config.num_hidden_layers, 2, batch, config.num_key_value_heads, max_tokens, config.head_dim)
        self.room = torch.zeros(shape, dtype=dtype, device=device)
        self.length = 0

    @property
    def nbytes(self):
        return self.room.nbytes

    def append(self, layer, keys, values):
        start = self.length
        self.length += keys.shape[2]
        if self.length > self.room.shape[4]:
            self.length = start
            raise CacheFull
        self.room[layer, 0, :, :, start : self.length] = keys
        self.room[layer, 1, :, :, start : self.length] = values
        return self.room[layer, 0, :, :, : self.length], self.room[layer, 1, :, :, : self.length]

    def advance(self, n):
        pass

    def crop(self, n):
        self.length -= n
