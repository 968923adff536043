"""wrong: the n-th block that this process met is named n
points: 2
message: another process
"""
names = {}


def block_hashes(tokens, block_tokens):
    hashes, parent = [], b""
    for end in range(block_tokens, len(tokens) + 1, block_tokens):
        key = (parent, tuple(tokens[end - block_tokens : end]))
        parent = names.setdefault(key, len(names)).to_bytes(8, "big")   # the n-th block that this process met
        hashes.append(parent)
    return hashes
