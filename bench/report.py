"""What the rounds of a benchmark come to, for people and as a record."""
import json
import random
import statistics


def interval(values):
    """The 5 … 95 % bootstrap interval of the median; the same one each time for the same values."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(1000))
    return medians[50], medians[949]


class Report:
    """Prints each figure when it is there, and keeps all for --json."""

    def __init__(self, rounds):
        self.record = {'rounds': rounds, 'figures': {}}
        print(f'{"":70} {"median":>9}    5 … 95 % of {rounds} rounds', flush=True)

    def add(self, what, unit, values):
        middle, (low, high) = statistics.median(values), interval(values)
        print(f'{what:70} {middle:9.4f} {unit:2} {low:.4f} … {high:.4f}', flush=True)
        self.record['figures'][what.strip()] = {
            'unit': unit, 'median': middle, 'low': low, 'high': high, 'values': values}

    def write(self, path):
        if path:
            with open(path, 'w', encoding='utf-8') as file:
                json.dump(self.record, file, indent=1)
