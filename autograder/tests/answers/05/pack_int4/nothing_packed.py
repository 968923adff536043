"""wrong: one number per byte, as before
points: 0
message: half as many
"""


def pack_int4(q):
    return q.clone()


def unpack_int4(packed, columns):
    return packed[:, :columns].clone()
