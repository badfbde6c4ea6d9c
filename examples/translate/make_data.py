#!/usr/bin/env python3
"""Lines to begin with: sentences of English and of a made-up language whose verbs come last and whose adjectives follow.

usage: make_data.py FILE [--lines N] [--seed N]
"""

import argparse
import random

NOUNS = {'dog': 'hund', 'cat': 'kazo', 'bird': 'vela', 'horse': 'morin', 'child': 'lapse', 'king': 'rego',
         'baker': 'panist', 'sailor': 'marul'}
ADJECTIVES = {'old': 'veku', 'small': 'mini', 'red': 'ruga', 'quiet': 'silen', 'clever': 'saga'}
VERBS = {'sees': 'vidat', 'follows': 'sekat', 'likes': 'amat', 'hears': 'odat'}


def group(random_):
    noun = random_.choice(list(NOUNS))
    if random_.random() < 0.4:
        return f'the {noun}', f'lo {NOUNS[noun]}'
    adjective = random_.choice(list(ADJECTIVES))
    return f'the {adjective} {noun}', f'lo {NOUNS[noun]} {ADJECTIVES[adjective]}'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('file')
    parser.add_argument('--lines', type=int, default=2000)
    parser.add_argument('--seed', type=int, default=0)
    given = parser.parse_args()
    random_ = random.Random(given.seed)
    with open(given.file, 'w', encoding='utf-8') as out:
        for _ in range(given.lines):
            (who, who_there), (whom, whom_there) = group(random_), group(random_)
            verb = random_.choice(list(VERBS))
            out.write(f'{who} {verb} {whom}\t{who_there} {whom_there} {VERBS[verb]}\n')


main()
