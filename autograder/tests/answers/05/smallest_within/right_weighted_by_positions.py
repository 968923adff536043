"""right: sums per text, and the smallest of those left at each step"""


def smallest_within(reference_logits, logits_of, candidates, *, max_kl):
    left = list(candidates)
    positions = sum(reference.shape[0] for reference in reference_logits)
    while left:
        smallest = min(left, key=lambda c: (c.bits * c.group_size + c.scale_bits + c.minimum_bits) / c.group_size)
        left.remove(smallest)
        total = 0.0
        for reference, other in zip(reference_logits, logits_of(smallest)):
            log_p, log_q = reference.double().log_softmax(-1), other.double().log_softmax(-1)
            total += (log_p.exp() * (log_p - log_q)).sum().item()
        if total / positions <= max_kl:
            return smallest
