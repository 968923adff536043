"""wrong: counts what is asked for and stores nothing
points: 1
message: nothing is held
"""
from transformers import DynamicCache


class PrefixCache:
    def __init__(self, block_tokens, max_blocks):
        self.seen_tokens = self.hit_tokens = 0

    def match(self, tokens):
        self.seen_tokens += len(tokens)
        return DynamicCache()

    def insert(self, tokens, cache):
        pass
