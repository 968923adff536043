"""wrong: reserves a place per query head, and uses the first ones
points: 4
message: query heads
"""
import torch


class CacheFull(Exception):
    pass


class PreallocatedCache:
    def __init__(self, config, max_tokens, *, batch, dtype, device):
        shape = (config.num_hidden_layers, 2, batch, config.num_attention_heads, max_tokens, config.head_dim)
        self.room = torch.zeros(shape, dtype=dtype, device=device)
        self.length = 0

    @property
    def nbytes(self):
        return self.room.nbytes

    def append(self, layer, keys, values):
        heads, end = keys.shape[1], self.length + keys.shape[2]
        if end > self.room.shape[4]:
            raise CacheFull
        room = self.room[layer, :, :, :heads, :end]
        room[0, :, :, self.length :] = keys
        room[1, :, :, self.length :] = values
        return room[0], room[1]

    def advance(self, n):
        self.length += n

    def crop(self, n):
        self.length -= n
