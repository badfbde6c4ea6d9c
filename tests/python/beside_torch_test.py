#!/usr/bin/env python3
"""The examples beside PyTorch: each is trained by Muster, and once more by a loop of PyTorch that starts from our export of
step 0, takes the samples of each step from `muster ledger` and goes lane by lane. Dropout and augmentation are off.

Losses are equal within 1e-4 as long as rounding carries (docs/decisions/0015-parity-and-chaos.md), and a rate that is 1 %
wrong is caught. Where it does not carry, the outcome over seeds has to be that of PyTorch, beside an ordinary loop with
whole batches in an order of its own. With code-lm that loop begins with our weights, so that small errors of the
optimizer show: the means of loss and accuracy at the end. With mlp and transformer it knows nothing of our job, begins with
weights of its own, and both are measured on data that neither has seen: a tolerance follows from the spread of its
seeds, and a third of the rate is told apart.
MUSTER_PROGRAMS is the folder of the programs, MUSTER_EXAMPLES that of the examples' plug-ins, a folder for each. The
specifications are smaller ones than those of examples/ and stand here; data is made by what lies there, or lies there.
"""

import functools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from needs_torch import functional, needs_torch, nn, torch

MUSTER = os.path.join(os.environ['MUSTER_PROGRAMS'], 'muster')
PLUGINS = pathlib.Path(os.environ['MUSTER_EXAMPLES'])
SOURCE = pathlib.Path(__file__).resolve().parents[2] / 'examples'
TOLERANCE = 1e-4

# Of the means over seeds: the loss by its size, the accuracy as it is. What another order of the samples makes is a
# tenth of it, and what an optimizer makes that is not ours is twice as much or more; the test prints both.
SEEDS = (1, 2, 3)
OUTCOME_TOLERANCE = {'loss': 0.01, 'accuracy': 0.01}

# Of PyTorch's loops that begin with weights of their own. By their spread the mean of our three seeds may lie from theirs
# as far as that of three more of such loops does in all but one of a thousand times: Student's t for 7 degrees of freedom.
THEIR_SEEDS = tuple(range(11, 19))
STUDENT_T = 5.408


def tolerance(theirs):
    assert len(theirs) == len(THEIR_SEEDS)
    return STUDENT_T * statistics.stdev(theirs) * math.sqrt(1 / len(SEEDS) + 1 / len(theirs))


def muster(*words):
    done = subprocess.run([MUSTER, *map(str, words)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Model:
    """A module; the sum of the losses of some samples, with what it is divided by; and how many are foretold rightly, with
    what our task calls their share."""

    def __init__(self, module, loss, right=None, accuracy='accuracy'):
        self.module, self.loss, self.right, self.accuracy = module, loss, right, accuracy


def mlp(parameters, folder, state):
    rows = np.loadtxt(folder / 'rows.csv', delimiter=',', dtype=np.float32)
    inputs, labels = torch.from_numpy(rows[:, :-1].copy()), torch.from_numpy(rows[:, -1].copy())
    module = nn.Module()
    module.first, module.last = nn.Linear(2, parameters['hidden']), nn.Linear(parameters['hidden'], 1)

    def loss(ids):
        out = module.last(torch.tanh(module.first(inputs[ids]))).squeeze(1)
        return functional.mse_loss(out, labels[ids], reduction='sum'), len(ids)
    return Model(module, loss)


def code_lm(parameters, folder, state):
    width, heads, context = parameters['width'], parameters['heads'], parameters['context']
    corpus = torch.tensor(list((folder / 'text.txt').read_bytes()))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
            self.query_key_value, self.attention_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp_in, self.mlp_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            samples, positions, _ = x.shape
            query, key, value = self.query_key_value(self.attention_norm(x)).chunk(3, dim=2)
            query, key, value = (part.view(samples, positions, heads, -1).transpose(1, 2) for part in (query, key, value))
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.attention_out(mixed.transpose(1, 2).reshape(samples, positions, width))
            return x + self.mlp_out(functional.gelu(self.mlp_in(self.mlp_norm(x))))

    module = nn.Module()
    module.bytes, module.positions = nn.Embedding(256, width), nn.Parameter(torch.zeros(context, width))
    module.blocks = nn.ModuleList(Block() for _ in range(parameters['layers']))
    module.norm, module.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)

    def foretell(ids):
        tokens = torch.stack([corpus[i * context:(i + 1) * context + 1] for i in ids])
        x = module.bytes(tokens[:, :-1]) + module.positions
        for block in module.blocks:
            x = block(x)
        return module.head(module.norm(x)).flatten(0, 1), tokens[:, 1:].flatten()

    def loss(ids):
        logits, following = foretell(ids)
        return functional.cross_entropy(logits, following, reduction='sum'), following.numel()

    def right(ids):
        logits, following = foretell(ids)
        return int((logits.argmax(1) == following).sum())
    return Model(module, loss, right)


def mix(*numbers):
    """SplitMix64, of which Muster's seeds are made (lib/base/hash.h)."""
    whole = (1 << 64) - 1
    mixed = 0
    for place, number in enumerate(numbers):
        x = number if place == 0 else mixed ^ number
        x = (x + 0x9e3779b97f4a7c15) & whole
        x = ((x ^ x >> 30) * 0xbf58476d1ce4e5b9) & whole
        x = ((x ^ x >> 27) * 0x94d049bb133111eb) & whole
        mixed = x ^ x >> 31
    return mixed


def transformer(parameters, folder, state, seed=1, samples=300):
    """Its data, which is that of a job's seed, is drawn before its weights."""
    width = parameters['width']
    torch.manual_seed(mix(seed, 0x64617461))
    source = torch.rand(samples, parameters['source_length'], width)
    target = torch.rand(samples, parameters['target_length'], width)
    module = nn.Transformer(width, parameters['heads'], parameters['encoder_layers'], parameters['decoder_layers'],
                            parameters['feedforward'], dropout=0)

    def loss(ids):
        out = module(source[ids].transpose(0, 1), target[ids].transpose(0, 1))
        labels = target[ids].transpose(0, 1).argmax(2)
        return functional.cross_entropy(out.flatten(0, 1), labels.flatten(), reduction='sum'), labels.numel()
    return Model(module, loss)


def resnet(parameters, folder, state):
    def convolution(inside, out, size, stride=1):
        return nn.Conv2d(inside, out, size, stride=stride, padding=size // 2, bias=False)

    class Block(nn.Module):
        def __init__(self, inside, out, stride):
            super().__init__()
            self.first, self.first_norm = convolution(inside, out, 3, stride), nn.BatchNorm2d(out)
            self.second, self.second_norm = convolution(out, out, 3), nn.BatchNorm2d(out)
            self.is_straight = inside == out and stride == 1
            if not self.is_straight:
                self.shortcut, self.shortcut_norm = convolution(inside, out, 1, stride), nn.BatchNorm2d(out)

        def forward(self, x):
            inner = self.second_norm(self.second(torch.relu(self.first_norm(self.first(x)))))
            return torch.relu(inner + (x if self.is_straight else self.shortcut_norm(self.shortcut(x))))

    file = np.fromfile(folder / 'images' / 'data_batch.bin', dtype=np.uint8).reshape(-1, 1 + 3 * 32 * 32)
    labels = torch.from_numpy(file[:, 0].astype(np.int64))
    images = (torch.from_numpy(file[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32)) / 255 - 0.5) / 0.25
    width, blocks = parameters['width'], parameters['blocks']
    module = nn.Module()
    module.stem, module.norm = convolution(3, width, 3), nn.BatchNorm2d(width)
    stages, inside = [], width
    for factor in (1, 2, 4):
        for block in range(blocks):
            stages.append(Block(inside, factor * width, 2 if block == 0 and factor > 1 else 1))
            inside = factor * width
    module.stages, module.head = nn.Sequential(*stages), nn.Linear(inside, 10)

    def scores(ids):
        return module.head(module.stages(torch.relu(module.norm(module.stem(images[ids])))).mean((2, 3)))

    def loss(ids):
        return functional.cross_entropy(scores(ids), labels[ids], reduction='sum',
                                        label_smoothing=parameters['label_smoothing']), len(ids)

    def right(ids):
        return int((scores(ids).argmax(1) == labels[ids]).sum())
    return Model(module, loss, right)


PADDING, BEGIN, END, FIRST_BYTE, FIRST_MERGE, LEFT_OUT = 0, 1, 2, 3, 3 + 256, -100


def encode(text, ranks):
    """Tokens of a line: in each word, with the space before it, pairs are merged in the order in which they were learned."""
    tokens = []
    for number, part in enumerate(text.split(' ')):
        word = [FIRST_BYTE + byte for byte in ((' ' if number else '') + part).encode()]
        while True:
            pairs = [(ranks[pair], at) for at, pair in enumerate(zip(word, word[1:])) if pair in ranks]
            if not pairs:
                break
            into, at = min(pairs)
            word[at:at + 2] = [into]
        tokens += word
    return tokens + [END]


def translate(parameters, folder, state):
    width, length = parameters['width'], 64
    merges = state['merges']
    ranks = {tuple(pair): FIRST_MERGE + rank for rank, pair in enumerate(merges.tolist()) if pair[0] >= 0}
    lines = [line.split('\t') for line in (folder / 'train.tsv').read_text().splitlines()]
    sources, targets = ([encode(line[side], ranks) for line in lines] for side in (0, 1))
    assert max(map(len, sources + targets)) <= length
    module = nn.Module()
    tokens = FIRST_MERGE + len(merges)
    module.tokens, module.positions = nn.Embedding(tokens, width), nn.Parameter(0.5 * torch.randn(length + 1, width))
    module.transformer = nn.Transformer(width, parameters['heads'], parameters['layers'], parameters['layers'],
                                        parameters['feedforward'], dropout=0)
    module.head = nn.Linear(width, tokens)
    module.register_buffer('merges', merges.clone())

    def rows(lists, fill):
        return nn.utils.rnn.pad_sequence([torch.tensor(one) for one in lists], batch_first=True, padding_value=fill)

    def embed(ids):
        return (module.tokens(ids) + module.positions[:ids.size(1)]).transpose(0, 1)

    def hidden(ids):
        return torch.zeros(ids.shape).masked_fill(ids == PADDING, -math.inf)

    def foretell(ids):
        source, ended = rows([sources[i] for i in ids], PADDING), rows([targets[i] for i in ids], LEFT_OUT)
        begun = rows([[BEGIN] + targets[i][:-1] for i in ids], PADDING)
        later = nn.Transformer.generate_square_subsequent_mask(begun.size(1))
        out = module.transformer(embed(source), embed(begun), tgt_mask=later, src_key_padding_mask=hidden(source),
                                 tgt_key_padding_mask=hidden(begun), memory_key_padding_mask=hidden(source))
        return module.head(out.transpose(0, 1)).flatten(0, 1), ended.flatten()

    def loss(ids):
        scores, ended = foretell(ids)
        sum_ = functional.cross_entropy(scores, ended, ignore_index=LEFT_OUT, reduction='sum',
                                        label_smoothing=parameters['label_smoothing'])
        return sum_, int((ended != LEFT_OUT).sum())

    def right(ids):
        scores, ended = foretell(ids)
        return int((scores.argmax(1) == ended).sum())
    return Model(module, loss, right, 'token_accuracy')


def learning_rate(spec, step, steps):
    schedule, rate = spec.get('schedule', {}), spec['optimizer']['learning_rate']
    warmup = schedule.get('warmup_steps', 0)
    if step < warmup:
        return rate * (step + 1) / warmup
    if schedule.get('kind', 'constant') == 'constant':
        return rate
    assert schedule['kind'] == 'cosine'
    begin = max(warmup - 1, 0)
    left = (1 + math.cos(math.pi * (step - begin) / (steps - 1 - begin))) / 2
    final = schedule.get('final_ratio', 0)
    return rate * (final + (1 - final) * left)


def optimizer_of(spec, parameters):
    given = spec['optimizer']
    decay = given.get('weight_decay', 0)
    if given['kind'] == 'momentum':
        return torch.optim.SGD(parameters, lr=0, momentum=given.get('momentum', 0.9), weight_decay=decay)
    kinds = {'adam': torch.optim.Adam, 'adamw': torch.optim.AdamW}
    return kinds[given['kind']](parameters, lr=0, weight_decay=decay)


def train(spec, records, model, rate_error=1.0):
    """Mean losses of the steps, each before its update."""
    parameters = [p for p in model.module.parameters() if p.requires_grad]
    optimizer, losses = optimizer_of(spec, parameters), []
    model.module.train()
    for record in records:
        optimizer.zero_grad()
        total, weight, buffers = 0.0, 0, None
        for lane in record['lanes']:
            loss, terms = model.loss(lane['samples'])
            loss.backward()
            total, weight = total + loss.item(), weight + terms
            if lane['lane'] == 0:  # its buffers are those of the step
                buffers = [buffer.clone() for buffer in model.module.buffers()]
        with torch.no_grad():
            for buffer, of_lane in zip(model.module.buffers(), buffers):
                buffer.copy_(of_lane)
            for parameter in parameters:
                parameter.grad /= weight
            if 'clip_norm' in spec:
                norm = math.sqrt(sum(float(p.grad.double().square().sum()) for p in parameters))
                for parameter in parameters:
                    parameter.grad *= min(1.0, spec['clip_norm'] / norm)
        optimizer.param_groups[0]['lr'] = rate_error * learning_rate(spec, record['step'], len(records))
        optimizer.step()
        losses.append(total / weight)
    return losses


def train_in_own_order(spec, model, samples, seed, optimizer_of=optimizer_of, rate_error=1.0):
    """An ordinary loop: whole batches, in an order of its own."""
    parameters, order = list(model.module.parameters()), []
    optimizer = optimizer_of(spec, parameters)
    random = torch.Generator().manual_seed(1000 + seed)
    model.module.train()
    for step in range(spec['steps']):
        if len(order) < spec['batch']:
            order = torch.randperm(samples, generator=random).tolist()
        ids, order = order[:spec['batch']], order[spec['batch']:]
        optimizer.zero_grad()
        loss, terms = model.loss(ids)
        (loss / terms).backward()
        if 'clip_norm' in spec:
            nn.utils.clip_grad_norm_(parameters, spec['clip_norm'])
        optimizer.param_groups[0]['lr'] = rate_error * learning_rate(spec, step, spec['steps'])
        optimizer.step()


def measure(spec, model, samples):
    """The loss over all samples, and the accuracy where the model tells how many are foretold rightly."""
    total = weight = right = 0
    model.module.eval()
    with torch.no_grad():
        for ids in torch.arange(samples).split(spec['batch']):
            loss, terms = model.loss(ids.tolist())
            total, weight = total + loss.item(), weight + terms
            if model.right:
                right += model.right(ids.tolist())
    return {'loss': total / weight} | ({model.accuracy: right / weight} if model.right else {})


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


class BesideTorchTest(unittest.TestCase):

    @needs_torch
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        torch.use_deterministic_algorithms(True)
        torch.set_num_threads(1)

    def run_of(self, spec, settings=()):
        return self.folder / f"run{spec.get('seed', 0)}{'-'.join(settings).replace('/', '')[:20]}"

    def muster_losses(self, example, spec, *settings):
        """Records of the ledger, and the weights at the end."""
        (self.folder / 'job.yaml').write_text(json.dumps(spec))
        run = self.run_of(spec, settings)
        muster('train', self.folder / 'job.yaml', '--plugins', PLUGINS / ('example_' + example), '--dir', run, '--workers', '2',
               *(word for setting in settings for word in ('--set', setting)))
        file = self.folder / 'model.pt'
        muster('export', '--dir', run, '--format', 'pt', '-o', file)
        told = [json.loads(line) for line in muster('ledger', '--dir', run, '--json').splitlines()]
        return told, torch.load(file, weights_only=True)

    def begin_of(self, example, spec):
        """The weights of step 0: no step changes what a rate of 0 leaves, but what batch norm has counted."""
        return self.muster_losses(example, spec, 'steps=1', 'optimizer={kind: sgd, learning_rate: 0}',
                                  'schedule={kind: constant}')[1]

    def compare(self, example, make, spec, steps, *, weights_within):
        spec['steps'] = steps
        first = self.begin_of(example, spec)
        records, last = self.muster_losses(example, spec)
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

    def test_outcome_over_seeds(self):
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
            self.muster_losses('code-lm', spec)
            told = json.loads(muster('evaluate', '--dir', self.run_of(spec), '--plugins', PLUGINS / 'example_code-lm',
                                     '--json'))
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

    def compare_outcomes(self, example, spec, make, samples, held_out, *evaluate):
        """`make` and `held_out` give a model of PyTorch, for a seed and the weights of a job of ours: one on its data, and
        one on what `muster evaluate` is given with the other words."""
        ours = []
        for seed in SEEDS:
            spec['seed'] = seed
            state = self.muster_losses(example, spec)[1]
            told = json.loads(muster('evaluate', '--dir', self.run_of(spec), '--plugins', PLUGINS / ('example_' + example),
                                     *evaluate, '--json'))
            ours.append(told['metrics'])

        def outcomes(seeds, rate_error=1.0):
            found = []
            for seed in seeds:
                torch.manual_seed(seed)
                model, measured = make(seed, state), held_out(state)
                train_in_own_order(spec, model, samples, seed, rate_error=rate_error)
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

    def test_outcome_of_mlp(self):
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

    def test_outcome_of_transformer(self):
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

    def test_transformer(self):
        spec = {'task': 'own-transformer', 'batch': 24, 'lanes': 6, 'seed': 1, 'data': {'samples': 300},
                'parameters': {'width': 32, 'heads': 4, 'encoder_layers': 2, 'decoder_layers': 2, 'feedforward': 64,
                               'source_length': 2, 'target_length': 7, 'dropout': 0},
                'optimizer': {'kind': 'adam', 'learning_rate': 0.001}}
        self.compare('transformer', transformer, spec, 20, weights_within=1e-1)

    def make_data(self, example, *words):
        done = subprocess.run([sys.executable, SOURCE / example / 'make_data.py', *words], timeout=100)
        self.assertEqual(done.returncode, 0)

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
