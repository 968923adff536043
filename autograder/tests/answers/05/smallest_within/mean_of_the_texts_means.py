"""wrong: a short text counts as much as a long one
points: 2
message: long one
"""


def mean_kl(reference, other):
    log_p, log_q = reference.log_softmax(-1), other.log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1).mean().item()


def smallest_within(reference_logits, logits_of, candidates, *, max_kl):
    for candidate in sorted(candidates, key=lambda c: c.bits + (c.scale_bits + c.minimum_bits) / c.group_size):
        each = [mean_kl(r, other) for r, other in zip(reference_logits, logits_of(candidate))]
        if sum(each) / len(each) <= max_kl:
            return candidate
    return None
