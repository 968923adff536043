"""wrong: a block's hash is made from its own tokens alone
points: 2
message: what is the hash of the parent for
"""
from hashlib import sha256


def block_hashes(tokens, block_tokens):
    full = len(tokens) // block_tokens
    blocks = [tokens[i * block_tokens : (i + 1) * block_tokens] for i in range(full)]
    return [sha256(repr(block).encode()).digest() for block in blocks]
