"""right: a tree of nodes that are walked token block by token block"""
import torch
from transformers import DynamicCache


class Node:
    def __init__(self, parent, key):
        self.parent, self.key, self.children, self.layers, self.used = parent, key, {}, [], 0


class PrefixCache:
    def __init__(self, block_tokens, max_blocks):
        self.block_tokens, self.max_blocks = block_tokens, max_blocks
        self.root, self.time, self.count = Node(None, None), 0, 0
        self.seen_tokens = self.hit_tokens = 0

    def walk(self, tokens):
        node, path = self.root, []
        for start in range(0, len(tokens) - self.block_tokens + 1, self.block_tokens):
            node = node.children.get(tuple(tokens[start : start + self.block_tokens]))
            if node is None:
                break
            path.append(node)
        self.time += 1
        for node in path:
            node.used = self.time
        return path

    def match(self, tokens):
        path = self.walk(tokens)
        self.seen_tokens += len(tokens)
        self.hit_tokens += len(path) * self.block_tokens
        if not path:
            return DynamicCache()
        pairs = zip(*(node.layers for node in path))
        return DynamicCache([tuple(torch.cat(parts, dim=-2) for parts in zip(*pair)) for pair in pairs])

    def leaves(self, node):
        for child in node.children.values():
            if child.children:
                yield from self.leaves(child)
            else:
                yield child

    def insert(self, tokens, cache):
        path = self.walk(tokens)
        node = path[-1] if path else self.root
        for start in range(len(path) * self.block_tokens, len(tokens) - self.block_tokens + 1, self.block_tokens):
            if self.count == self.max_blocks:
                candidates = [leaf for leaf in self.leaves(self.root) if leaf is not node]
                if not candidates:
                    return
                victim = min(candidates, key=lambda leaf: leaf.used)
                del victim.parent.children[victim.key]
                self.count -= 1
            child = Node(node, tuple(tokens[start : start + self.block_tokens]))
            for layer in cache.layers:
                span = slice(start, start + self.block_tokens)
                child.layers.append((layer.keys[:, :, span].clone(), layer.values[:, :, span].clone()))
            child.used = self.time
            node.children[child.key] = child
            self.count += 1
            node = child
