"""wrong: probabilities plus 1e-9 before the logarithm
points: 2
message: underflow
"""


def mean_kl(reference_logits, logits):
    p, q = reference_logits.softmax(-1), logits.softmax(-1)
    return (p * ((p + 1e-9) / (q + 1e-9)).log()).sum(-1).mean().item()
