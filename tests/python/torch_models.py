"""The models of examples/ in PyTorch, and what their losses are over samples of their data."""

import math

import numpy as np

from needs_torch import functional, nn, torch


class Model:
    """A module; the sum of the losses of some samples, with what it is divided by; and how many are foretold rightly, with
    of how many, under the name of such a metric of our task."""

    def __init__(self, module, loss, **right):
        self.module, self.loss, self.right = module, loss, right


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
        return int((logits.argmax(1) == following).sum()), following.numel()
    return Model(module, loss, accuracy=right)


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
        return int((scores(ids).argmax(1) == labels[ids]).sum()), len(ids)
    return Model(module, loss, accuracy=right)


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
                                        parameters['feedforward'], parameters['dropout'])
    module.head = nn.Linear(width, tokens)
    module.register_buffer('merges', merges.clone())

    def rows(lists, fill):
        return nn.utils.rnn.pad_sequence([torch.tensor(one) for one in lists], batch_first=True, padding_value=fill)

    def embed(ids):
        return (module.tokens(ids) + module.positions[:ids.size(1)]).transpose(0, 1)

    def hidden(ids):
        return torch.zeros(ids.shape).masked_fill(ids == PADDING, -math.inf)

    def scores(source, begun):
        later = nn.Transformer.generate_square_subsequent_mask(begun.size(1))
        out = module.transformer(embed(source), embed(begun), tgt_mask=later, src_key_padding_mask=hidden(source),
                                 tgt_key_padding_mask=hidden(begun), memory_key_padding_mask=hidden(source))
        return module.head(out.transpose(0, 1))

    def foretell(ids):
        source, ended = rows([sources[i] for i in ids], PADDING), rows([targets[i] for i in ids], LEFT_OUT)
        begun = rows([[BEGIN] + targets[i][:-1] for i in ids], PADDING)
        return scores(source, begun).flatten(0, 1), ended.flatten()

    def loss(ids):
        foretold, ended = foretell(ids)
        sum_ = functional.cross_entropy(foretold, ended, ignore_index=LEFT_OUT, reduction='sum',
                                        label_smoothing=parameters['label_smoothing'])
        return sum_, int((ended != LEFT_OUT).sum())

    def right_tokens(ids):
        foretold, ended = foretell(ids)
        return int((foretold.argmax(1) == ended).sum()), int((ended != LEFT_OUT).sum())

    def exact_lines(ids):
        """The token with the highest score behind those that it has said, until the end comes."""
        source, said = rows([sources[i] for i in ids], PADDING), torch.full((len(ids), 1), BEGIN)
        while said.size(1) <= length and not (said == END).any(1).all():
            said = torch.cat([said, scores(source, said)[:, -1:].argmax(2)], 1)
        return sum(row[1:len(targets[i]) + 1] == targets[i] for i, row in zip(ids, said.tolist())), len(ids)
    return Model(module, loss, token_accuracy=right_tokens, exact_match=exact_lines)
