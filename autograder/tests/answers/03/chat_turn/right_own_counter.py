"""right: a cache of its own kind that counts itself, the model called directly
points: 4
"""
import torch


class Conversation:
    def __init__(self):
        self.tokens, self.cache = 0, None

    def feed(self, model, ids):
        output = model(input_ids=ids, cache=self.cache, use_cache=True, logits_to_keep=1)
        self.cache, self.tokens = output.cache, self.tokens + ids.size(1)
        return output.logits[0, -1].argmax().view(1, 1)


def chat_turn(model, cache, history_ids, reply_tokens):
    conversation = cache or Conversation()
    with torch.no_grad():
        reply = conversation.feed(model, history_ids[:, conversation.tokens :])
        while reply.size(1) < reply_tokens:
            reply = torch.cat([reply, conversation.feed(model, reply[:, -1:])], dim=1)
    return reply, conversation
