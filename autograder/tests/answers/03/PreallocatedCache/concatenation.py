"""wrong: grows by concatenation
points: 4
message: reserved
"""
import torch


class CacheFull(Exception):
    pass


class PreallocatedCache:
    def __init__(self, config, max_tokens, *, batch, dtype, device):
        self.max_tokens, self.length = max_tokens, 0
        shape = (batch, config.num_key_value_heads, 0, config.head_dim)
        self.layers = [
            [torch.empty(shape, dtype=dtype, device=device) for _ in range(2)] for _ in range(config.num_hidden_layers)
        ]
        self.nbytes = 2 * len(self.layers) * batch * shape[1] * max_tokens * shape[3] * dtype.itemsize

    def append(self, layer, keys, values):
        if self.length + keys.shape[2] > self.max_tokens:
            raise CacheFull(f"{self.max_tokens} tokens")
        kept = [old[:, :, : self.length] for old in self.layers[layer]]
        self.layers[layer] = [torch.cat([old, new], dim=2) for old, new in zip(kept, (keys, values))]
        return tuple(self.layers[layer])

    def advance(self, n):
        self.length += n

    def crop(self, n):
        self.length -= n
