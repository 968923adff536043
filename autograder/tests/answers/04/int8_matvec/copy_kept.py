"""wrong: a dequantized copy is made once and kept
points: 2
message: a copy that is kept is read as well
speed: none
"""
copies = {}


def int8_matvec(x, q, scale):
    if q.data_ptr() not in copies:
        copies[q.data_ptr()] = q.to(x.dtype)
    return (copies[q.data_ptr()] @ x) * scale
