"""wrong: two bytes of the hash are kept
points: 2
message: too few bits
"""
from hashlib import sha256


def block_hashes(tokens, block_tokens):
    hashes, parent = [], b""
    for end in range(block_tokens, len(tokens) + 1, block_tokens):
        parent = sha256(parent + repr(tokens[end - block_tokens : end]).encode()).digest()
        hashes.append(parent[:2])
    return hashes
