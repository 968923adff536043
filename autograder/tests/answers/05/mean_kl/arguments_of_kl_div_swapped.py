"""wrong: torch's kl_div wants the approximating distribution first
points: 2
message: other way round
"""
import torch


def mean_kl(reference_logits, logits):
    log_p, log_q = reference_logits.log_softmax(-1), logits.log_softmax(-1)
    return torch.nn.functional.kl_div(log_p, log_q, log_target=True, reduction="none").sum(-1).mean().item()
