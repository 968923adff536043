"""wrong: the digits of the tokens stand side by side, so 1, 23 is 12, 3
points: 2
message: digits in a row are the same
"""
from hashlib import sha256


def block_hashes(tokens, block_tokens):
    hashes, parent = [], ""
    for end in range(block_tokens, len(tokens) + 1, block_tokens):
        text = "".join(str(token) for token in tokens[end - block_tokens : end])
        parent = sha256((parent + text).encode()).hexdigest()
        hashes.append(bytes.fromhex(parent))
    return hashes
