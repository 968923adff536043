"""wrong: hashes are text
points: 2
message: a hash is bytes
"""
from hashlib import sha256


def block_hashes(tokens, block_tokens):
    hashes, parent = [], ""
    for end in range(block_tokens, len(tokens) + 1, block_tokens):
        parent = sha256(f"{parent} {tokens[end - block_tokens : end]}".encode()).hexdigest()
        hashes.append(parent)
    return hashes
