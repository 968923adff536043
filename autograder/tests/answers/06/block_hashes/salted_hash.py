"""wrong: Python's own hash of the parent's bytes and the block
points: 2
message: salts its built-in hash
"""


def block_hashes(tokens, block_tokens):
    hashes, parent = [], b""
    for end in range(block_tokens, len(tokens) + 1, block_tokens):
        number = hash((parent, tuple(tokens[end - block_tokens : end])))
        parent = number.to_bytes(8, "big", signed=True)
        hashes.append(parent)
    return hashes
