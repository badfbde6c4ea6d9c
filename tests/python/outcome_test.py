#!/usr/bin/env python3
"""Where a job of the examples ends, over seeds, beside ordinary loops of PyTorch in an order of their own. Step by step
rounding grows until it says nothing (beside_torch_test.py looks at the steps before); the outcome does not.

With code-lm the loop begins with our weights, so that small errors of the optimizer show: the means of loss and accuracy at
the end. With the others it knows nothing of our job, begins with weights of its own, and both are measured on data that
neither has seen: a tolerance follows from the spread of its seeds, and a third of the rate is told apart.
"""

import functools
import math
import statistics
import sys
import unittest

from example_jobs import SOURCE, ExampleJobs
from needs_torch import torch
from torch_loops import measure, train_in_own_order
from torch_models import code_lm, mlp, resnet, transformer, translate

# Of the means over seeds: the loss by its size, the accuracy as it is. What another order of the samples makes is a
# tenth of it, and what an optimizer makes that is not ours is twice as much or more; the test prints both.
SEEDS = (1, 2, 3)
OUTCOME_TOLERANCE = {'loss': 0.01, 'accuracy': 0.01}

# Of PyTorch's loops that begin with weights of their own. By their spread the mean of our three seeds may lie from theirs
# as far as that of three more of such loops does in all but one of a thousand times: Student's t for 7 degrees of freedom.
THEIR_SEEDS = tuple(range(11, 19))
STUDENT_T = 5.408

# Of what `muster evaluate` tells of our weights, and PyTorch: what rounding makes.
SAME_WEIGHTS = 1e-4


def tolerance(theirs):
    assert len(theirs) == len(THEIR_SEEDS)
    return STUDENT_T * statistics.stdev(theirs) * math.sqrt(1 / len(SEEDS) + 1 / len(theirs))


def adam(spec, parameters):
    return torch.optim.Adam(parameters, lr=0, weight_decay=spec['optimizer']['weight_decay'])


def adamw(spec, parameters, **settings):
    return torch.optim.AdamW(parameters, lr=0, weight_decay=spec['optimizer']['weight_decay'], **settings)


def uncorrected(spec, parameters):
    """It begins as if there had been a million steps."""
    optimizer = adamw(spec, parameters)
    for parameter in parameters:
        optimizer.state[parameter] = {'step': torch.tensor(1e6), 'exp_avg': torch.zeros_like(parameter),
                                      'exp_avg_sq': torch.zeros_like(parameter)}
    return optimizer


class OutcomeTest(ExampleJobs):

    def test_code_lm(self):
        """Each loop but theirs is what could take the place of AdamW by mistake, and has to be told apart."""
        (self.folder / 'text.txt').write_text((SOURCE / 'translate' / 'translate.cc').read_text())
        spec = {'task': 'own-code-lm', 'batch': 24, 'lanes': 6, 'clip_norm': 1, 'steps': 80,
                'parameters': {'layers': 1, 'width': 32, 'heads': 4, 'context': 32, 'dropout': 0},
                'data': {'paths': [str(self.folder / 'text.txt')]},
                'optimizer': {'kind': 'adamw', 'learning_rate': 0.003, 'weight_decay': 0.1},
                'schedule': {'kind': 'cosine', 'warmup_steps': 5, 'final_ratio': 0.1}}
        loops = {'theirs': {},
                 'a rate that is 10 % wrong': {'rate_error': 0.9},
                 'Adam, whose decay is part of the gradient': {'optimizer_of': adam},
                 'AdamW with less momentum': {'optimizer_of': functools.partial(adamw, betas=(0.8, 0.999))},
                 'AdamW without correction of its first steps': {'optimizer_of': uncorrected}}
        ours, theirs = [], {name: [] for name in loops}
        for seed in SEEDS:
            spec['seed'] = seed
            first = self.begin_of('code-lm', spec)
            self.train('code-lm', spec)
            told = self.evaluate('code-lm', spec)
            ours.append(told['metrics'])
            for name, changed in loops.items():
                model = code_lm(spec['parameters'], self.folder, None)
                model.module.load_state_dict(first)
                train_in_own_order(spec, model, told['samples'], seed, **changed)
                theirs[name].append(measure(spec, model, told['samples']))

        def mean(outcomes, metric):
            return sum(one[metric] for one in outcomes) / len(outcomes)

        def apart(name):
            """How many tolerances the means are apart, at most."""
            loss, other = mean(ours, 'loss'), mean(theirs[name], 'loss')
            accuracy = abs(mean(ours, 'accuracy') - mean(theirs[name], 'accuracy'))
            return max(abs(loss - other) / other / OUTCOME_TOLERANCE['loss'], accuracy / OUTCOME_TOLERANCE['accuracy'])
        for name in loops:
            each = ', '.join(f"{a['loss']:.4f} and {b['loss']:.4f}" for a, b in zip(ours, theirs[name]))
            print(f"outcome, {name}: losses {each}; accuracy {mean(ours, 'accuracy'):.4f} and "
                  f"{mean(theirs[name], 'accuracy'):.4f}; {apart(name):.2f} tolerances apart", file=sys.stderr)
        self.assertLess(apart('theirs'), 1)
        for name in loops.keys() - {'theirs'}:
            self.assertGreater(apart(name), 1, name)

    def compare_outcomes(self, example, spec, make, samples, held_out, *evaluate, lanes=1):
        """`make` and `held_out` give a model of PyTorch, for a seed and the weights of a job of ours: one on its data, and
        one on what `muster evaluate` is given with the other words. That says of our weights what PyTorch says."""
        ours = []
        for seed in SEEDS:
            spec['seed'] = seed
            state = self.train(example, spec)
            told = self.evaluate(example, spec, *evaluate)
            ours.append(told['metrics'])
            measured = held_out(state)
            measured.module.load_state_dict(state)
            for metric, value in measure(spec, measured, told['samples']).items():
                self.assertAlmostEqual(told['metrics'][metric], value, delta=SAME_WEIGHTS, msg=metric)

        def outcomes(seeds, rate_error=1.0):
            found = []
            for seed in seeds:
                torch.manual_seed(seed)
                model, measured = make(seed, state), held_out(state)
                train_in_own_order(spec, model, samples, seed, rate_error=rate_error, lanes=lanes)
                measured.module.load_state_dict(model.module.state_dict())
                found.append(measure(spec, measured, told['samples']))
            return found
        theirs, wrong = outcomes(THEIR_SEEDS), outcomes(THEIR_SEEDS[:len(SEEDS)], 1 / 3)
        apart, wrong_apart = {}, {}
        for metric in theirs[0]:
            mine, others, wrongs = ([one[metric] for one in found] for found in (ours, theirs, wrong))
            mean, most = statistics.mean(others), tolerance(others)
            apart[metric] = abs(statistics.mean(mine) - mean) / most
            wrong_apart[metric] = abs(statistics.mean(wrongs) - mean) / most
            print(f'{example}, held-out {metric}: {statistics.mean(mine):.4f} ({min(mine):.4f} to {max(mine):.4f}) and '
                  f'{mean:.4f} ({min(others):.4f} to {max(others):.4f}); {apart[metric]:.2f} tolerances of {most:.4f} apart '
                  f'(a third of the rate: {wrong_apart[metric]:.2f})', file=sys.stderr)
        self.assertLess(max(apart.values()), 1, apart)
        self.assertGreater(max(wrong_apart.values()), 1, 'a third of the rate')

    def test_mlp(self):
        rows = (SOURCE / 'plugin' / 'rows.csv').read_text().splitlines(keepends=True)
        held_out = self.folder / 'held-out'
        held_out.mkdir()
        (self.folder / 'rows.csv').write_text(''.join(rows[:384]))
        (held_out / 'rows.csv').write_text(''.join(rows[384:]))
        parameters = {'hidden': 16}
        spec = {'task': 'mlp', 'parameters': parameters, 'batch': 32, 'lanes': 4, 'steps': 240,
                'data': {'paths': [str(self.folder / 'rows.csv')], 'format': 'csv', 'header': False, 'label': '3'},
                'optimizer': {'kind': 'adamw', 'learning_rate': 0.01}}
        self.compare_outcomes('mlp', spec, lambda seed, state: mlp(parameters, self.folder, state), 384,
                              lambda state: mlp(parameters, held_out, state), '--data', held_out / 'rows.csv')

    def test_transformer(self):
        """A job's seed makes its data, too."""
        unseen = 1000
        parameters = {'width': 32, 'heads': 4, 'encoder_layers': 1, 'decoder_layers': 1, 'feedforward': 64,
                      'source_length': 2, 'target_length': 7, 'dropout': 0}
        spec = {'task': 'own-transformer', 'batch': 32, 'lanes': 4, 'data': {'samples': 384}, 'steps': 60,
                'parameters': parameters, 'optimizer': {'kind': 'adam', 'learning_rate': 0.001}}
        self.compare_outcomes('transformer', spec,
                              lambda seed, state: transformer(parameters, self.folder, state, seed, 384), 384,
                              lambda state: transformer(parameters, self.folder, state, unseen, 384),
                              '--set', f'seed={unseen}')

    def test_resnet(self):
        """Theirs goes lane by lane, too: batch norm over whole batches of 32 ends with a loss that is 12 % smaller than with
        lanes of 8, so the loops would not be alike."""
        held_out = self.folder / 'held-out'
        self.make_data('resnet', self.folder / 'images', '--samples', '320')
        self.make_data('resnet', held_out / 'images', '--samples', '200', '--seed', '1')
        parameters = {'width': 8, 'blocks': 1, 'label_smoothing': 0.05}
        spec = {'task': 'resnet', 'batch': 32, 'lanes': 4, 'parameters': parameters, 'steps': 60,
                'data': {'paths': [str(self.folder / 'images')], 'format': 'cifar10', 'mean': [0.5], 'deviation': [0.25]},
                'optimizer': {'kind': 'momentum', 'learning_rate': 0.05, 'weight_decay': 0.0005},
                'schedule': {'kind': 'cosine', 'warmup_steps': 6}}
        self.compare_outcomes('resnet', spec, lambda seed, state: resnet(parameters, self.folder, state), 320,
                              lambda state: resnet(parameters, held_out, state), '--data', held_out / 'images',
                              lanes=spec['lanes'])

    def test_translate(self):
        held_out = self.folder / 'held-out'
        held_out.mkdir()
        self.make_data('translate', self.folder / 'train.tsv', '--lines', '640')
        self.make_data('translate', held_out / 'train.tsv', '--lines', '200', '--seed', '1')
        parameters = {'width': 32, 'heads': 4, 'layers': 1, 'feedforward': 64, 'merges': 100, 'label_smoothing': 0.05,
                      'dropout': 0}
        spec = {'task': 'translate', 'batch': 32, 'lanes': 4, 'clip_norm': 1, 'parameters': parameters, 'steps': 240,
                'data': {'paths': [str(self.folder / 'train.tsv')]},
                'optimizer': {'kind': 'adamw', 'learning_rate': 0.005},
                'schedule': {'kind': 'cosine', 'warmup_steps': 20}}
        self.compare_outcomes('translate', spec, lambda seed, state: translate(parameters, self.folder, state), 640,
                              lambda state: translate(parameters, held_out, state), '--data', held_out / 'train.tsv')


if __name__ == '__main__':
    unittest.main(verbosity=2)
