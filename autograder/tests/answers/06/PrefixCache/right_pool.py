"""right: one pool for max_blocks blocks, reserved at the first insert; a table says where a block lies"""
import torch
from transformers import DynamicCache


class PrefixCache:
    def __init__(self, block_tokens, max_blocks):
        self.block_tokens, self.max_blocks = block_tokens, max_blocks
        self.pool, self.free = None, list(range(max_blocks))
        self.place, self.used, self.now = {}, {}, 0
        self.seen_tokens = 0
        self.hit_tokens = 0

    def path(self, tokens):
        n = self.block_tokens
        return [tuple(tokens[: (i + 1) * n]) for i in range(len(tokens) // n)]

    def match(self, tokens):
        self.now += 1
        found = []
        for name in self.path(tokens):
            if name not in self.place:
                break
            self.used[name] = self.now
            found.append(self.place[name])
        self.seen_tokens += len(tokens)
        self.hit_tokens += len(found) * self.block_tokens
        cache = DynamicCache()
        if found:
            for layer in range(self.pool.shape[1]):
                keys, values = (self.pool[found, layer, part].transpose(0, 1).flatten(1, 2) for part in (0, 1))
                cache.update(keys.unsqueeze(0).clone(), values.unsqueeze(0).clone(), layer)
        return cache

    def insert(self, tokens, cache):
        self.now += 1
        path = self.path(tokens)
        for name in path:
            if name in self.place:
                self.used[name] = self.now
        keys = torch.stack([layer.keys[0] for layer in cache.layers])  # [L, K, S, D]
        values = torch.stack([layer.values[0] for layer in cache.layers])
        if self.pool is None:
            L, K, _, D = keys.shape
            self.pool = keys.new_empty(self.max_blocks, L, 2, K, self.block_tokens, D)
        for i, name in enumerate(path):
            if name in self.place:
                continue
            if not self.free:
                parents = {other[: -self.block_tokens] for other in self.place}
                victims = [other for other in self.place if other not in parents and other not in path]
                if not victims:
                    return
                victim = min(victims, key=self.used.get)
                self.free.append(self.place.pop(victim))
            place = self.place[name] = self.free.pop()
            span = slice(i * self.block_tokens, (i + 1) * self.block_tokens)
            self.pool[place, :, 0], self.pool[place, :, 1] = keys[:, :, span], values[:, :, span]
            self.used[name] = self.now
