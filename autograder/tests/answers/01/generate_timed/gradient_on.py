"""wrong: everything a backward pass needs is recorded
points: 5
message: nobody trains
"""
from autograder import lab


def generate_timed(model, prompt_ids, new_tokens, *, sync, clock):
    cache, ids, tokens, token_times = lab.new_cache(model), prompt_ids, [], []
    sync()
    sent = clock()
    for _ in range(new_tokens):
        ids = lab.forward(model, ids, cache)[:, -1].argmax(-1, keepdim=True)
        tokens.append(ids.item())
        sync()
        token_times.append(clock())
    return tokens, sent, token_times
