"""right: one running hash, copied at each block's end"""
from hashlib import sha256


def block_hashes(tokens, block_tokens):
    running, hashes = sha256(), []
    for i in range(len(tokens) // block_tokens):
        for token in tokens[i * block_tokens : (i + 1) * block_tokens]:
            running.update(token.to_bytes(4, "little"))
        hashes.append(running.copy().digest())
    return hashes
