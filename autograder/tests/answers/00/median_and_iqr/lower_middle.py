"""wrong: torch.median takes the lower of two middle samples
points: 2
message: the lower of the two middle
"""

import torch


def median_and_iqr(samples):
    if len(samples) == 0:
        raise ValueError("no samples")
    samples = torch.tensor(samples, dtype=torch.float64)
    return samples.median(), samples.quantile(0.75) - samples.quantile(0.25)
