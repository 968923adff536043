"""wrong: the block at the end that is not full gets a hash too
points: 2
message: not full yet
"""
from hashlib import sha256


def block_hashes(tokens, block_tokens):
    hashes, parent = [], b""
    for start in range(0, len(tokens), block_tokens):
        parent = sha256(parent + repr(tokens[start : start + block_tokens]).encode()).digest()
        hashes.append(parent)
    return hashes
