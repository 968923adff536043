"""wrong: asks for a candidate's logits once per text
points: 2
message: twice
"""


def mean_kl(reference, other):
    log_p, log_q = reference.log_softmax(-1), other.log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1).mean().item()


def smallest_within(reference_logits, logits_of, candidates, *, max_kl):
    positions = sum(len(r) for r in reference_logits)
    for candidate in sorted(candidates, key=lambda c: c.bits + (c.scale_bits + c.minimum_bits) / c.group_size):
        total = sum(mean_kl(r, logits_of(candidate)[i]) * len(r) for i, r in enumerate(reference_logits))
        if total / positions <= max_kl:
            return candidate
    return None
