"""wrong: whole caches are kept and handed out, so the caller's generation grows the store
points: 3
message: that was the store itself
"""
from transformers import DynamicCache


class PrefixCache:
    def __init__(self, block_tokens, max_blocks):
        self.block_tokens, self.max_blocks = block_tokens, max_blocks
        self.store = {}
        self.seen_tokens = self.hit_tokens = 0

    def path(self, tokens):
        return [tuple(tokens[:end]) for end in range(self.block_tokens, len(tokens) + 1, self.block_tokens)]

    def match(self, tokens):
        self.seen_tokens += len(tokens)
        for name in reversed(self.path(tokens)):
            if name in self.store:
                self.hit_tokens += len(name)
                return self.store[name]
        return DynamicCache()

    def insert(self, tokens, cache):
        for name in self.path(tokens):
            if name not in self.store and len(self.store) < self.max_blocks:
                kept = DynamicCache()
                for layer, x in enumerate(cache.layers):
                    kept.update(x.keys[:, :, : len(name)], x.values[:, :, : len(name)], layer)
                self.store[name] = kept
