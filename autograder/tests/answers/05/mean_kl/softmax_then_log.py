"""wrong: the logarithm of probabilities that have underflowed
points: 2
message: underflow
"""


def mean_kl(reference_logits, logits):
    p, q = reference_logits.softmax(-1), logits.softmax(-1)
    return (p * (p.log() - q.log())).sum(-1).mean().item()
