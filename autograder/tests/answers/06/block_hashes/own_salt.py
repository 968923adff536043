"""wrong: a salt drawn when the process starts
points: 2
message: another process
"""
from hashlib import sha256
import os
SALT = os.urandom(16)


def block_hashes(tokens, block_tokens):
    hashes, parent = [], SALT
    for end in range(block_tokens, len(tokens) + 1, block_tokens):
        parent = sha256(parent + repr(tokens[end - block_tokens : end]).encode()).digest()
        hashes.append(parent)
    return hashes
