"""What shape:tiny says: the small model on which correctness is judged, as the judge itself runs it."""

from __future__ import annotations

VOCABULARY = 211


def greedy(seed: int, prompt: list[list[int]], new_tokens: int) -> tuple[list[int], list[float]]:
    """The greedy tokens of shape:tiny, and for each by how much it beat the next, in standard deviations."""
    import torch

    from autograder import lab

    model = lab.load_model("shape:tiny", dtype=torch.float32, seed=seed)
    cache, ids = lab.new_cache(model), torch.tensor(prompt, device=lab.device())
    tokens, margins = [], []
    with torch.inference_mode():
        for _ in range(new_tokens):
            logits = lab.forward(model, ids, cache)[0, -1]  # [V]
            best = logits.topk(2).values
            margins.append(((best[0] - best[1]) / logits.std()).item())
            ids = logits.argmax().view(1, 1)
            tokens.append(ids.item())
    return tokens, margins
