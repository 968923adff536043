"""wrong: written for decode, only the last query is answered
points: 3
message: one of them
"""


def cached_attention(q, keys, values):
    B, H, _, D = q.shape
    K = keys.shape[1]
    q = q[:, :, -1].reshape(B, K, H // K, D)
    weights = (q @ keys.mT / D**0.5).softmax(-1)
    return (weights @ values).reshape(B, H, 1, D)
