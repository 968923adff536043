"""wrong: a loop that keeps only the last text's KL
points: 2
message: last text
"""


def mean_kl(reference, other):
    log_p, log_q = reference.log_softmax(-1), other.log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1).mean().item()


def smallest_within(reference_logits, logits_of, candidates, *, max_kl):
    for candidate in sorted(candidates, key=lambda c: c.bits + (c.scale_bits + c.minimum_bits) / c.group_size):
        for reference, other in zip(reference_logits, logits_of(candidate)):
            kl = mean_kl(reference, other)
        if kl <= max_kl:
            return candidate
    return None
