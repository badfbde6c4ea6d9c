"""How PyTorch trains such a model as a job of ours describes, and how it is measured then."""

import math

from needs_torch import nn, torch


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


def backward(model, lanes):
    """The mean loss of a step, whose gradient is then there: lane by lane, as ours, so that batch norm has the mean and
    variance of a lane's samples, and what it counts is that of lane 0."""
    total, weight, buffers = 0.0, 0, None
    for samples in lanes:
        loss, terms = model.loss(samples)
        loss.backward()
        total, weight = total + loss.item(), weight + terms
        if buffers is None:
            buffers = [buffer.clone() for buffer in model.module.buffers()]
    with torch.no_grad():
        for buffer, of_lane in zip(model.module.buffers(), buffers):
            buffer.copy_(of_lane)
        for parameter in model.module.parameters():
            if parameter.requires_grad:
                parameter.grad /= weight
    return total / weight


def train(spec, records, model, rate_error=1.0):
    """Mean losses of the steps, each before its update."""
    parameters = [p for p in model.module.parameters() if p.requires_grad]
    optimizer, losses = optimizer_of(spec, parameters), []
    model.module.train()
    for record in records:
        optimizer.zero_grad()
        lanes = sorted(record['lanes'], key=lambda lane: lane['lane'])
        losses.append(backward(model, [lane['samples'] for lane in lanes]))
        if 'clip_norm' in spec:
            with torch.no_grad():
                norm = math.sqrt(sum(float(p.grad.double().square().sum()) for p in parameters))
                for parameter in parameters:
                    parameter.grad *= min(1.0, spec['clip_norm'] / norm)
        optimizer.param_groups[0]['lr'] = rate_error * learning_rate(spec, record['step'], len(records))
        optimizer.step()
    return losses


def train_in_own_order(spec, model, samples, seed, optimizer_of=optimizer_of, rate_error=1.0, lanes=1):
    """An ordinary loop, in an order of its own; with whole batches, where nothing else is said."""
    parameters, order = list(model.module.parameters()), []
    optimizer = optimizer_of(spec, parameters)
    random = torch.Generator().manual_seed(1000 + seed)
    model.module.train()
    for step in range(spec['steps']):
        if len(order) < spec['batch']:
            order = torch.randperm(samples, generator=random).tolist()
        ids, order = order[:spec['batch']], order[spec['batch']:]
        optimizer.zero_grad()
        backward(model, [part.tolist() for part in torch.tensor(ids).tensor_split(lanes)])
        if 'clip_norm' in spec:
            nn.utils.clip_grad_norm_(parameters, spec['clip_norm'])
        optimizer.param_groups[0]['lr'] = rate_error * learning_rate(spec, step, spec['steps'])
        optimizer.step()


def measure(spec, model, samples):
    """The loss over all samples, and what the model tells how many are foretold rightly of."""
    sums = {'loss': model.loss} | model.right
    totals = {name: (0.0, 0) for name in sums}
    model.module.eval()
    with torch.no_grad():
        for ids in torch.arange(samples).split(spec['batch']):
            for name, sum_of in sums.items():
                value, terms = sum_of(ids.tolist())
                totals[name] = totals[name][0] + float(value), totals[name][1] + terms
    return {name: value / terms for name, (value, terms) in totals.items()}
