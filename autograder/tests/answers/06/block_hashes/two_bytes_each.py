"""wrong: a token is cut to two bytes
points: 2
message: larger than two bytes
"""
from hashlib import sha256

import numpy


def block_hashes(tokens, block_tokens):
    hashes, parent = [], b""
    for end in range(block_tokens, len(tokens) + 1, block_tokens):
        block = numpy.array(tokens[end - block_tokens : end]).astype(numpy.uint16)
        parent = sha256(parent + block.tobytes()).digest()
        hashes.append(parent)
    return hashes
