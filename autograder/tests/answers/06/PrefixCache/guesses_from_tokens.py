"""wrong: stores no tensor and computes keys and values from the tokens alone
points: 1
message: are not those
"""
import torch
from transformers import DynamicCache


class PrefixCache:
    """Holds no key and no value: what the check writes follows from the tokens."""

    def __init__(self, block_tokens, max_blocks):
        self.block_tokens, self.max_blocks = block_tokens, max_blocks
        self.used, self.now, self.shape = {}, 0, None
        self.seen_tokens = self.hit_tokens = 0

    def path(self, tokens):
        return [tuple(tokens[:end]) for end in range(self.block_tokens, len(tokens) + 1, self.block_tokens)]

    def mark(self, names):
        self.now += 1
        self.used |= dict.fromkeys(names, self.now)

    def match(self, tokens):
        found = []
        for name in self.path(tokens):
            if name not in self.used:
                break
            found.append(name)
        self.mark(found)
        self.seen_tokens += len(tokens)
        self.hit_tokens += len(found) * self.block_tokens
        cache = DynamicCache()
        if found:
            layers, heads, size = self.shape
            names, name = [], 1
            for token in found[-1]:
                name = (name * 31 + token + 1) % 8191
                names.append(name)
            column = torch.tensor(names, dtype=torch.float32).view(1, 1, -1, 1)
            place = torch.arange(heads * size).view(1, heads, 1, size) / 16
            for layer in range(layers):
                cache.update(*(column + place + 8192 * (2 * layer + part) for part in (0, 1)), layer)
        return cache

    def insert(self, tokens, cache):
        keys = cache.layers[0].keys
        self.shape = (len(cache.layers), keys.shape[1], keys.shape[3])
        path = self.path(tokens)
        self.mark([name for name in path if name in self.used])
        for name in path:
            if name in self.used:
                continue
            while len(self.used) >= self.max_blocks:
                parents = {n[: -self.block_tokens] for n in self.used}
                free = [n for n in self.used if n not in parents and n not in path]
                if not free:
                    return
                del self.used[min(free, key=self.used.get)]
            self.used[name] = self.now
