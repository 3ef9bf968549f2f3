# SPDX-License-Identifier: BSD-3-Clause
"""What the thesis measured on a Cray XC30 (U. Wickramasinghe, Indiana University, 2020, section
6.1), for bench/alloc to put beside its own. A network of then and the memory of one machine of now
cannot be compared in microseconds, only in how much slower one mode is than another."""

# (op, bytes): block t(us); tag t(us), slowdown; channel t(us), slowdown. A slowdown is t / t(block)
# - 1.
TABLE_6_1 = {
    ("put", 4): (0.687875, 1.218790, 0.771819, 2.412901, 2.507761),
    ("put", 512): (0.715452, 1.275250, 0.782440, 2.459728, 2.438006),
    ("put", 65536): (10.160331, 18.153805, 0.786734, 36.159626, 2.558902),
    ("get", 4): (1.696002, 2.981292, 0.757835, 5.863599, 2.457307),
    ("get", 512): (2.457840, 4.347762, 0.768936, 8.567319, 2.485711),
    ("get", 65536): (10.630672, 19.135609, 0.800038, 40.755211, 2.504115),
}

# messages that the heap holds, heuristic: t(us), slowdown, sync_t(us). A slowdown is t /
# t(unbounded).
TABLE_6_2 = {
    "4K": (0.663801, 1.077, 0.023961),
    "64": (1.060588, 1.720, 0.469532),
    "8": (2.372357, 3.847, 1.824634),
    "4K bestfit": (2.464952, 3.998, 1.798794),
    "64 bestfit": (2.474809, 4.014, 1.824920),
    "8 bestfit": (2.514217, 4.078, 1.821569),
    "4K worstfit": (2.486498, 4.033, 1.836441),
    "64 worstfit": (2.469965, 4.006, 1.790187),
    "8 worstfit": (2.484216, 4.029, 1.807688),
}

# the figure is a picture; these are the words about it
FIGURE_6_14 = ["Thesis: 75 to 400 times slower with next-fit, 20 to 30 times with best- and worst-fit, delays of 1 to 10 us."]
