"""right: everything up to the block's end is hashed each time"""
import hashlib


def block_hashes(tokens, block_tokens):
    ends = range(block_tokens, len(tokens) + 1, block_tokens)
    return [hashlib.blake2b(str(tokens[:end]).encode(), digest_size=16).digest() for end in ends]
