"""wrong: a token is cut to one byte
points: 2
message: does not fit into one byte
"""
from hashlib import sha256


def block_hashes(tokens, block_tokens):
    hashes, parent = [], b""
    for end in range(block_tokens, len(tokens) + 1, block_tokens):
        parent = sha256(parent + bytes(token % 256 for token in tokens[end - block_tokens : end])).digest()
        hashes.append(parent)
    return hashes
