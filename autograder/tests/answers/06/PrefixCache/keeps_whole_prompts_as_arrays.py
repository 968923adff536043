"""wrong: every whole prompt is kept as well, as arrays
points: 6
message: and there is room for
"""
from collections import OrderedDict

import torch
from transformers import DynamicCache


class PrefixCache:
    def __init__(self, block_tokens, max_blocks):
        self.size, self.most = block_tokens, max_blocks
        self.store = OrderedDict()  # tokens up to the block's end -> [(keys, values)] per layer
        self.seen_tokens = self.hit_tokens = 0
        self.whole = []

    def names(self, tokens):
        return [tuple(tokens[:end]) for end in range(self.size, len(tokens) + 1, self.size)]

    def mark(self, names):
        for name in reversed(names):
            if name in self.store:
                self.store.move_to_end(name)

    def match(self, tokens):
        names = self.names(tokens)
        n = next((i for i, name in enumerate(names) if name not in self.store), len(names))
        self.mark(names[:n])
        self.seen_tokens += len(tokens)
        self.hit_tokens += n * self.size
        cache = DynamicCache()
        blocks = [self.store[name] for name in names[:n]]
        for layer in range(len(blocks[0]) if blocks else 0):
            cache.update(*(torch.cat([block[layer][part] for block in blocks], dim=2) for part in (0, 1)), layer)
        return cache

    def insert(self, tokens, cache):
        names = self.names(tokens)
        self.mark(names)
        for i, name in enumerate(names):
            if name in self.store:
                continue
            if len(self.store) == self.most:
                oldest = next(iter(self.store))
                if oldest in names:
                    break
                del self.store[oldest]
            span = slice(i * self.size, (i + 1) * self.size)
            self.store[name] = [(x.keys[:, :, span].clone(), x.values[:, :, span].clone()) for x in cache.layers]
            self.whole.append([(x.keys.numpy().copy(), x.values.numpy().copy()) for x in cache.layers])
            self.mark(names)
