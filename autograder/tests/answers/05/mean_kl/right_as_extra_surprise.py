"""right: cross-entropy less entropy, from logsumexp, a position at a time"""


def mean_kl(reference_logits, logits):
    total, count = 0.0, 0
    for r, other in zip(reference_logits.flatten(0, -2).double(), logits.flatten(0, -2).double()):
        p = (r - r.logsumexp(0)).exp()
        cross = other.logsumexp(0) - (p * other).sum()
        own = r.logsumexp(0) - (p * r).sum()
        total, count = total + (cross - own).item(), count + 1
    return total / count
