#!/usr/bin/env python3
"""Images to begin with, in CIFAR-10's own format: a class is the direction and the width of its stripes, under noise.

usage: make_data.py FOLDER [--samples N] [--seed N]
"""

import argparse
import math
import pathlib
import random

SIDE, CLASSES = 32, 10


def image(random_, label):
    upright, wave = label % 2, 0.4 + 0.25 * (label // 2)
    shift, colour = random_.uniform(0, 2 * math.pi), [random_.uniform(20, 60) for _ in range(3)]
    planes = bytearray()
    for strength in colour:
        for y in range(SIDE):
            for x in range(SIDE):
                stripe = strength * math.sin(wave * (x if upright else y) + shift)
                planes.append(max(0, min(255, round(128 + stripe + random_.gauss(0, 40)))))
    return planes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('--samples', type=int, default=1000)
    parser.add_argument('--seed', type=int, default=0)
    given = parser.parse_args()
    random_ = random.Random(given.seed)
    given.folder.mkdir(parents=True, exist_ok=True)
    with open(given.folder / 'data_batch.bin', 'wb') as out:
        for _ in range(given.samples):
            label = random_.randrange(CLASSES)
            out.write(bytes([label]) + image(random_, label))


main()
