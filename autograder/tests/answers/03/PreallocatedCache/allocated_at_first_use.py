"""wrong: storage is made when the first token comes
points: 4
message: reserved
"""
import torch


class CacheFull(Exception):
    pass


class PreallocatedCache:
    def __init__(self, config, max_tokens, *, batch, dtype, device):
        self.shape = (config.num_hidden_layers, 2, batch, config.num_key_value_heads, max_tokens, config.head_dim)
        self.options = {"dtype": dtype, "device": device}
        self.room = None
        self.length = 0

    @property
    def nbytes(self):
        return torch.Size(self.shape).numel() * self.options["dtype"].itemsize

    def append(self, layer, keys, values):
        if self.room is None:
            self.room = torch.zeros(self.shape, **self.options)
        end = self.length + keys.shape[2]
        if end > self.shape[4]:
            raise CacheFull
        self.room[layer, 0, :, :, self.length : end] = keys
        self.room[layer, 1, :, :, self.length : end] = values
        return self.room[layer, 0, :, :, :end], self.room[layer, 1, :, :, :end]

    def advance(self, n):
        self.length += n

    def crop(self, n):
        self.length -= n
