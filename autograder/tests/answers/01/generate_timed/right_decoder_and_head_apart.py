"""right: the decoder and the head called apart, tokens as a tensor
points: 6
"""
import torch
from transformers import DynamicCache


class Generator:
    def __init__(self, model):
        self.model = model
        self.cache = DynamicCache(config=model.config)

    def next(self, ids):
        hidden = self.model.model(ids, cache=self.cache, use_cache=True).last_hidden_state
        return self.model.lm_head(hidden[:, -1]).argmax(-1)


def generate_timed(model, prompt_ids, new_tokens, *, sync, clock):
    generator, tokens, times = Generator(model), torch.zeros(new_tokens, dtype=torch.long), []
    with torch.inference_mode():
        sync()
        sent, ids = clock(), prompt_ids
        for i in range(new_tokens):
            tokens[i] = generator.next(ids)
            sync()
            times.append(clock())
            ids = tokens[i].view(1, 1).to(prompt_ids.device)
    return tokens, sent, tuple(times)
