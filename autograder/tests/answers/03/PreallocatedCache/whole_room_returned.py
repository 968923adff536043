"""wrong: returns the empty places too
points: 1
message: layer 0 gave back 24 tokens
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
        end = self.length + keys.shape[2]
        if end > self.room.shape[4]:
            raise CacheFull
        self.room[layer, 0, :, :, self.length : end] = keys
        self.room[layer, 1, :, :, self.length : end] = values
        return self.room[layer, 0], self.room[layer, 1]

    def advance(self, n):
        self.length += n

    def crop(self, n):
        self.length -= n
