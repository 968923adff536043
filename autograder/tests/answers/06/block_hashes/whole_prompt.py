"""wrong: the length of the whole prompt is in every hash
points: 2
message: ignores what comes after it
"""
from hashlib import sha256


def block_hashes(tokens, block_tokens):
    hashes, parent = [], str(len(tokens)).encode()
    for end in range(block_tokens, len(tokens) + 1, block_tokens):
        parent = sha256(parent + repr(tokens[end - block_tokens : end]).encode()).digest()
        hashes.append(parent)
    return hashes
