"""right: the model called directly, prefill and decode apart, tokens gathered on the device
points: 6
"""
import torch


def greedy(output):
    return output.logits[0, -1].argmax().reshape(1, 1)


def generate_timed(model, prompt_ids, new_tokens, *, sync, clock):
    with torch.no_grad():
        sync()
        sent = clock()
        output = model(input_ids=prompt_ids, use_cache=True, logits_to_keep=1)
        newest = greedy(output)
        sync()
        times, generated = [clock()], [newest]
        while len(generated) < new_tokens:
            output = model(input_ids=newest, cache=output.cache, use_cache=True, logits_to_keep=1)
            newest = greedy(output)
            sync()
            times.append(clock())
            generated.append(newest)
    return torch.cat(generated, dim=1)[0].tolist(), sent, times
