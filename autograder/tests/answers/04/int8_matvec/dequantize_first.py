"""wrong: the weight is turned back into floats, then multiplied
points: 2
message: the weight is turned into floats as a whole
speed: none
"""
def int8_matvec(x, q, scale):
    weight = q.float() * scale[:, None]
    return weight @ x.float()
