"""wrong: the tokens of a block are sorted before they are hashed
points: 2
message: order of tokens matters
"""
from hashlib import sha256


def block_hashes(tokens, block_tokens):
    hashes, parent = [], b""
    for end in range(block_tokens, len(tokens) + 1, block_tokens):
        parent = sha256(parent + repr(sorted(tokens[end - block_tokens : end])).encode()).digest()
        hashes.append(parent)
    return hashes
