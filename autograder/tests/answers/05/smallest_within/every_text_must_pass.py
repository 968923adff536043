"""wrong: stricter than asked
points: 2
message: each text
"""


def mean_kl(reference, other):
    log_p, log_q = reference.log_softmax(-1), other.log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1).mean().item()


def smallest_within(reference_logits, logits_of, candidates, *, max_kl):
    for candidate in sorted(candidates, key=lambda c: c.bits + (c.scale_bits + c.minimum_bits) / c.group_size):
        if all(mean_kl(r, other) <= max_kl for r, other in zip(reference_logits, logits_of(candidate))):
            return candidate
    return None
