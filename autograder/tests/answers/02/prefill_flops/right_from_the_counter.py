"""right: asks torch's counter on the meta device"""
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM

from autograder import lab


def prefill_flops(config, tokens):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
        ids = torch.zeros(1, tokens, dtype=torch.long)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        lab.forward(model, ids, lab.new_cache(model))
    return counter.get_total_flops()
