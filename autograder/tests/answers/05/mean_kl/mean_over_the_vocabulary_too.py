"""wrong: torch's default reduction
points: 2
message: vocabulary
"""
import torch


def mean_kl(reference_logits, logits):
    log_p, log_q = reference_logits.log_softmax(-1), logits.log_softmax(-1)
    return torch.nn.functional.kl_div(log_q, log_p, log_target=True).item()
