"""wrong: torch's batchmean divides by the first axis alone
points: 2
message: first axis
"""
import torch


def mean_kl(reference_logits, logits):
    log_p, log_q = reference_logits.log_softmax(-1), logits.log_softmax(-1)
    return torch.nn.functional.kl_div(log_q, log_p, log_target=True, reduction="batchmean").item()
