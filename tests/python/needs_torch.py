"""PyTorch for the scripts beside this. Where it cannot be imported, the tests that need it fail with a sentence: one
that is left out counts as passed, and proves nothing."""

import functools

__unittest = True  # so that a failure shows the sentence, and no line of this file

try:
    import torch
    from torch import nn
    from torch.nn import functional
    WHY = None
except (ImportError, OSError, ValueError) as error:  # it is missing, or a library that it loads
    torch = nn = functional = None
    WHY = f'{error}'.partition('\n')[0][:100]


def needs_torch(test):
    """Decorates a test, or the setUp of all tests of a class."""

    @functools.wraps(test)
    def run(self):
        if torch is None:
            self.fail(f'PyTorch cannot be imported ({WHY}): run ./dev test python, which fetches it, or this script '
                      'with a Python that has it.')
        test(self)
    return run
