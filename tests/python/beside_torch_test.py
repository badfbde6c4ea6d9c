#!/usr/bin/env python3
"""The examples beside PyTorch, step by step: each is trained by Muster, and once more by a loop of PyTorch that starts from
our export of step 0, takes the samples of each step from `muster ledger` and goes lane by lane. Dropout and augmentation
are off.

Losses are equal within 1e-4 as long as rounding carries (docs/decisions/0015-parity-and-chaos.md), and a rate that is 1 %
wrong is caught. outcome_test.py looks at where it does not carry. The specifications are smaller ones than those of
examples/.
"""

import math
import sys
import unittest

from example_jobs import SOURCE, ExampleJobs
from needs_torch import torch
from torch_loops import train
from torch_models import code_lm, mlp, resnet, transformer, translate

TOLERANCE = 1e-4


class BesideTorchTest(ExampleJobs):

    def compare(self, example, make, spec, steps, *, weights_within):
        spec['steps'] = steps
        first = self.begin_of(example, spec)
        last = self.train(example, spec)
        records = self.records(spec)
        self.assertEqual([record['step'] for record in records], list(range(steps)))
        ours = [record['loss'] for record in records]

        def theirs(rate_error=1.0):
            model = make(spec['parameters'], self.folder, first)
            # Batch norm's begin anew.
            fresh = {name: tensor for name, tensor in model.module.state_dict().items()
                     if name.endswith(('running_mean', 'running_var', 'num_batches_tracked'))}
            model.module.load_state_dict(first | fresh)
            return train(spec, records, model, rate_error), model.module.state_dict()

        def largest(losses):
            return max(abs(a - b) / abs(b) for a, b in zip(ours, losses))
        losses, weights = theirs()
        self.assertEqual(set(weights), set(last))
        apart = moved = 0.0
        for name, tensor in weights.items():
            if tensor.is_floating_point():
                apart += float((tensor - last[name]).double().square().sum())
                moved += float((tensor - first[name]).double().square().sum())
            else:
                self.assertTrue(torch.equal(tensor, last[name]), name)
        wrong = largest(theirs(1.01)[0])
        print(f'{example}: losses {ours[0]:.4f} to {ours[-1]:.4f} differ by {largest(losses):.1e} (1 % wrong: {wrong:.1e}), '
              f'weights by {math.sqrt(apart / moved):.1e} of their way', file=sys.stderr)
        self.assertLess(largest(losses), TOLERANCE)
        self.assertGreater(wrong, TOLERANCE, 'a rate that is 1 % wrong')
        self.assertLess(math.sqrt(apart / moved), weights_within)
        self.assertLess(ours[-1], ours[0])

    def test_mlp(self):
        (self.folder / 'rows.csv').write_bytes((SOURCE / 'plugin' / 'rows.csv').read_bytes())
        spec = {'task': 'mlp', 'parameters': {'hidden': 16}, 'batch': 32, 'lanes': 8,
                'data': {'paths': [str(self.folder / 'rows.csv')], 'format': 'csv', 'header': False, 'label': '3'},
                'optimizer': {'kind': 'adamw', 'learning_rate': 0.01}}
        self.compare('mlp', mlp, spec, 100, weights_within=1e-3)

    def test_code_lm(self):
        text = (SOURCE / 'translate' / 'translate.cc').read_text()
        (self.folder / 'text.txt').write_text(text)
        spec = {'task': 'own-code-lm', 'batch': 24, 'lanes': 6, 'clip_norm': 1,
                'parameters': {'layers': 2, 'width': 32, 'heads': 4, 'context': 32, 'dropout': 0},
                'data': {'paths': [str(self.folder / 'text.txt')]},
                'optimizer': {'kind': 'adamw', 'learning_rate': 0.001, 'weight_decay': 0.01},
                'schedule': {'kind': 'cosine', 'warmup_steps': 5, 'final_ratio': 0.1}}
        self.compare('code-lm', code_lm, spec, 20, weights_within=1e-2)

    def test_transformer(self):
        spec = {'task': 'own-transformer', 'batch': 24, 'lanes': 6, 'seed': 1, 'data': {'samples': 300},
                'parameters': {'width': 32, 'heads': 4, 'encoder_layers': 2, 'decoder_layers': 2, 'feedforward': 64,
                               'source_length': 2, 'target_length': 7, 'dropout': 0},
                'optimizer': {'kind': 'adam', 'learning_rate': 0.001}}
        self.compare('transformer', transformer, spec, 20, weights_within=1e-1)

    def test_resnet(self):
        self.make_data('resnet', self.folder / 'images', '--samples', '160')
        spec = {'task': 'resnet', 'batch': 32, 'lanes': 4, 'parameters': {'width': 8, 'blocks': 1, 'label_smoothing': 0.05},
                'data': {'paths': [str(self.folder / 'images')], 'format': 'cifar10', 'mean': [0.5], 'deviation': [0.25]},
                'optimizer': {'kind': 'momentum', 'learning_rate': 0.05, 'weight_decay': 0.0005},
                'schedule': {'kind': 'cosine', 'warmup_steps': 4}}
        self.compare('resnet', resnet, spec, 12, weights_within=1e-2)

    def test_translate(self):
        self.make_data('translate', self.folder / 'train.tsv', '--lines', '400')
        spec = {'task': 'translate', 'batch': 32, 'lanes': 4, 'clip_norm': 1,
                'parameters': {'width': 32, 'heads': 4, 'layers': 1, 'feedforward': 64, 'merges': 100,
                               'label_smoothing': 0.05, 'dropout': 0},
                'data': {'paths': [str(self.folder / 'train.tsv')]},
                'optimizer': {'kind': 'adamw', 'learning_rate': 0.003},
                'schedule': {'kind': 'cosine', 'warmup_steps': 10}}
        self.compare('translate', translate, spec, 20, weights_within=1e-1)


if __name__ == '__main__':
    unittest.main(verbosity=2)
