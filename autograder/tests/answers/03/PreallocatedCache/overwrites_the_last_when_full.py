"""wrong: writes into the last places, then says that it is full
points: 4
message: intact
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
        new = keys.shape[2]
        start = min(self.length, self.room.shape[4] - new)
        self.room[layer, 0, :, :, start : start + new] = keys
        self.room[layer, 1, :, :, start : start + new] = values
        if start < self.length:
            raise CacheFull
        return self.room[layer, 0, :, :, : start + new], self.room[layer, 1, :, :, : start + new]

    def advance(self, n):
        self.length += n

    def crop(self, n):
        self.length -= n
