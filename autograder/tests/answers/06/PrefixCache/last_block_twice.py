"""wrong: the tokens behind the last full block are stored as a block too
points: 3
message: only full blocks
"""
import torch
from transformers import DynamicCache


class PrefixCache:
    def __init__(self, block_tokens, max_blocks):
        self.block_tokens, self.max_blocks = block_tokens, max_blocks
        self.store, self.used, self.now = {}, {}, 0
        self.seen_tokens = self.hit_tokens = 0

    def path(self, tokens):
        return [tuple(tokens[:end]) for end in range(self.block_tokens, len(tokens) + self.block_tokens, self.block_tokens)]

    def touch(self, names):
        self.now += 1
        for name in names:
            self.used[name] = self.now

    def match(self, tokens):
        found = []
        for name in self.path(tokens):
            if name not in self.store:
                break
            found.append(name)
        self.touch(found)
        self.seen_tokens += len(tokens)
        self.hit_tokens += len(found) * self.block_tokens
        cache = DynamicCache()
        for layer in range(len(self.store[found[0]]) if found else 0):
            keys, values = (torch.cat([self.store[name][layer][part] for name in found], dim=2) for part in (0, 1))
            cache.update(keys, values, layer)
        return cache

    def victim(self, path):
        parents = {name[: -self.block_tokens] for name in self.store}
        free = [name for name in self.store if name not in parents and name not in path]
        return min(free, key=self.used.get) if free else None

    def cut(self, x, start, end):
        return x[:, :, start:end].clone()

    def insert(self, tokens, cache):
        path = self.path(tokens)
        self.touch([name for name in path if name in self.store])
        for i, name in enumerate(path):
            if name in self.store:
                continue
            if len(self.store) >= self.max_blocks:
                gone = self.victim(path)
                if gone is None:
                    return
                del self.store[gone]
            start, end = i * self.block_tokens, (i + 1) * self.block_tokens
            self.store[name] = [(self.cut(x.keys, start, end), self.cut(x.values, start, end)) for x in cache.layers]
            self.used[name] = self.now
