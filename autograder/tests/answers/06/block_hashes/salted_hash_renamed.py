"""wrong: Python's own hash, under another name
points: 2
message: another process
"""
name_of = hash   # Python's own, under another name


def block_hashes(tokens, block_tokens):
    hashes, parent = [], ""
    for end in range(block_tokens, len(tokens) + 1, block_tokens):
        parent = str(name_of(parent + ":" + str(tokens[end - block_tokens : end])))
        hashes.append(parent.encode())
    return hashes
