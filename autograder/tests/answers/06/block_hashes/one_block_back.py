"""wrong: the block before is in the hash, but not what stands before that
points: 2
message: the first token of the prompt was changed
"""
from hashlib import sha256


def block_hashes(tokens, block_tokens):
    hashes = []
    for end in range(block_tokens, len(tokens) + 1, block_tokens):
        two = tokens[max(0, end - 2 * block_tokens) : end]
        hashes.append(sha256(repr((two, end == block_tokens)).encode()).digest())
    return hashes
