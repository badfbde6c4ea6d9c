#!/usr/bin/env python3
"""Refuses what the plan of the house forbids (docs/architecture.md section 3).

usage: layering.py [ROOT]              prints one line per violation, exit status 1 if there is any
       layering.py --longest N [ROOT]  prints the N longest functions

The rules are the tables below; whoever adds a room or a library adds a line there.
"""

import fnmatch
import os
import re
import subprocess
import sys

# A room is a folder with all below it; the longest pattern that fits a file names its room. A room may include itself
# and rooms of lower levels. Levels are those of the plan; the digit after the point orders rooms within one level.
LEVELS = {
    'proto': 1,
    'include/muster': 1,  # what plug-ins see
    'lib/base': 1,
    'lib/domain': 2,
    'lib/kernels': 2,
    'lib/log': 2,
    'lib/config': 2,
    'lib/curl': 2,
    'lib/metrics': 2,
    'lib/plot': 2,
    'lib/spool': 2.5,  # data sets read what lies there
    'lib/storage': 3,
    'lib/wire': 3.1,  # reads the table of tasks
    'lib/tensorboard': 3.2,
    'lib/optim': 3.2,  # copies through lib/wire, which counts
    'lib/task': 3,
    'lib/data': 3,
    'lib/lane_counter': 3,
    'lib/identity': 3,
    'lib/*/state': 3,
    'coordinator/state': 4,
    'agent/state': 4,
    'lib/transport': 4,
    'lib/http': 4,
    'lib/join': 4,
    'lib/checkpoint': 4,
    'lib/export': 4.1,
    'lib/transport/loop': 5,
    'lib/transport/grpc': 5,
    'lib/owner': 4,
    'lib/*/runtime': 5,
    'lib/member': 5,
    'lib/launch': 5.5,
    'coordinator/runtime': 6.0,
    'coordinator/kubernetes': 6.0,
    'coordinator/webhooks': 6.1,
    'coordinator/mlflow': 6.1,
    'worker/runtime': 6.0,
    'worker/torch': 6.0,
    'agent': 6.0,
    'coordinator/service': 6.1,
    'coordinator/service/grpc': 6.2,
    'worker/tasks': 6.1,
    'worker/plugins': 6.2,
    'worker/commands': 6.3,
    'cli': 7.0,
    'coordinator': 7.0,
    'server': 7.0,
    'worker': 7.0,
    'examples': 8,
    # The worker has them, too, and the table of tasks what they are.
    'examples/code-lm': 1.1,
    'examples/transformer': 1.1,
    'tests': 8,
    'bench': 8,
}

# What is also built out of this tree names the headers beside it by their names alone.
BUILT_ALONE = ('examples',)

# Rooms that may include one another though they stand on one level.
PEERS = ('lib/*/state', 'lib/*/runtime')

PROGRAMS = ('coordinator', 'server', 'worker', 'agent', 'cli')
# Who may include another program, and which.
PROGRAM_JOINTS = {'cli/main.cc': ('agent', 'coordinator')}

# The rooms that decide see these of our own, and nothing that has a thread, a lock, a clock, chance or an effect: neither
# directly nor through a header they include.
STATE_ROOMS = ('lib/*/state', 'coordinator/state', 'agent/state')
STATE_SEES = ('include/muster', 'lib/base', 'lib/domain', 'lib/*/state')
STATE_FORBIDDEN_HEADERS = re.compile(
    r'(thread|mutex|shared_mutex|condition_variable|future|semaphore|latch|barrier|stop_token|atomic'
    r'|iostream|fstream|filesystem|ctime|random'
    r'|pthread\.h|unistd\.h|fcntl\.h|time\.h|netdb\.h'
    r'|(sys|arpa|netinet|net)/.*'
    r'|absl/(synchronization|random|log|flags)/.*|absl/time/clock\.h'
    r'|(grpc|grpcpp|google/protobuf|torch|ATen|c10|rocksdb|prometheus|boost|spdlog|fmt|openssl)/.*|.*\.pb\.h)$')
STATE_FORBIDDEN_WORDS = re.compile(
    r'\b(steady_clock|system_clock|high_resolution_clock|random_device|getenv|s?rand\s*\(|printf|std::cout|std::cerr)')
# Such a room is made of parts that take values and give actions back. None keeps a way to another: a field of a class leads
# to no type of the same room by a raw pointer, a reference or a smart pointer (one to const that is shared is a value), and
# holds no function, which might lead anywhere.
TYPE_OF_ROOM = re.compile(r'^[ \t]*(?:(?:class|struct|enum(?:[ \t]+class)?)[ \t]+(\w+)[^;{}()]*\{|using[ \t]+(\w+)[ \t]*=)',
                          re.MULTILINE)
ALIAS = re.compile(r'\busing\s+(\w+)\s*=\s*([^;]+);')
LEADS_SOMEWHERE = re.compile(r'[*&]|\b(?:(?:shared|weak|unique)_ptr|reference_wrapper)\s*<')
POINTS_TO_CONST = re.compile(r'\b(?:shared|weak|unique)_ptr\s*<\s*(?:const\s+[\w:]+|[\w:]+\s+const)\s*>')
HOLDS_A_FUNCTION = re.compile(r'\bstd::(?:function|move_only_function)\s*<|\babsl::AnyInvocable\s*<')
NO_FIELD = re.compile(r'^(?:using|typedef|friend|template|enum|class|struct|static_assert)\b|\boperator\b')
# Whoever reads a header of such a room is told at its top how long what it declares lives.
SAYS_ITS_LIFE = re.compile(r'\b(?:[Ll]ives|[Ll]ive as long|Pure|pure function|[Pp]lain values?)\b')

# Each foreign library has a home: (name, its headers, rooms or files that may include it, the same for tests and bench).
ANY_TEST = ('tests', 'bench')
TREES_AS_TEXT = ('lib/config', 'lib/wire', 'lib/data', 'lib/http', 'cli', 'coordinator/service', 'coordinator/kubernetes', 'coordinator/webhooks', 'coordinator/mlflow', 'agent', 'worker/commands', 'worker/tasks', 'lib/export')
FOREIGN = [
    ('gRPC and Protobuf', r'(grpc|grpcpp|google/protobuf)/|.*\.pb\.h$', ('lib/wire', 'lib/transport/grpc', 'coordinator/service/grpc'),
     ANY_TEST),
    ('RocksDB', r'rocksdb/', ('lib/storage',), ANY_TEST),
    ('prometheus-cpp', r'prometheus/', ('lib/metrics',), ANY_TEST),
    ('LibTorch', r'(torch|ATen|c10)/', ('include/muster/torch', 'include/muster/plugin.h', 'worker/torch', 'worker/tasks', 'examples'),
     ('tests/parity', 'tests/worker', 'tests/integration/save_script.cc', 'bench')),
    ('Boost', r'boost/', ('lib/http',), ANY_TEST),
    ('spdlog', r'(spdlog|fmt)/', ('lib/log',), ANY_TEST),
    ('yaml-cpp', r'yaml-cpp/', TREES_AS_TEXT, ANY_TEST),
    ('nlohmann-json', r'nlohmann/', TREES_AS_TEXT, ANY_TEST),
    ('CLI11', r'CLI/', ('cli', 'lib/launch', 'worker/commands', '*/main.cc'), ANY_TEST),
    ('Highway', r'hwy/', ('lib/kernels', 'lib/optim'), ANY_TEST),
    ('ISA-L', r'isa-l', ('lib/kernels',), ANY_TEST),
    ('libcurl', r'curl/', ('lib/curl', 'coordinator/kubernetes', 'coordinator/webhooks', 'coordinator/mlflow'), ANY_TEST),
    ('zlib', r'zlib\.h$', ('lib/data',), ANY_TEST),
    ('libhdf5, libjpeg-turbo and libpng', r'(hdf5|jpeglib|jerror|png)\.h$', ('lib/data/decoder',), ANY_TEST),
    ('OpenSSL', r'openssl/', ('lib/kernels', 'lib/identity', 'lib/join'), ANY_TEST),
    ('GoogleTest', r'(gtest|gmock)/', (), ANY_TEST),
    ('Google Benchmark', r'benchmark/', (), ('bench',)),
]

FIND_PACKAGE_HOME = ('cmake/dependencies.cmake', 'examples/plugin/CMakeLists.txt', 'examples/code-lm/CMakeLists.txt',
                     'examples/resnet/CMakeLists.txt', 'examples/transformer/CMakeLists.txt',
                     'examples/translate/CMakeLists.txt')

# On the data path one function moves the bytes of tensors, and counts them.
TENSOR_PATH = ('lib/transport', 'lib/wire', 'lib/optim', 'lib/owner/runtime', 'lib/member/runtime', 'worker/runtime',
               'worker/torch', 'worker/tasks')
TENSOR_MOVER = ('lib/wire/tensor_copy.cc',)
MOVES_BYTES = re.compile(
    r'\b(memcpy|memmove|mempcpy|bcopy)\s*\('
    r'|\b(std::|ranges::)(uninitialized_)?(copy|move)(_n|_if|_backward)?\s*\((?=[^()]*(\([^()]*\)[^()]*)*,)'
    r'|\.copy_\s*\('  # of at::Tensor
    r'|\.assign\s*\([^;]*\b(begin|data)\s*\(')
NOT_TENSOR_BYTES = re.compile(r'//\s*lint: not tensor bytes \([^)]+\)')

# A bare mutex is one whose guarded fields clang does not know.
MUTEX_HOME = ('lib/base/mutex.h', 'worker/torch/flat_module.cc')  # the latter locks a mutex of LibTorch's
BARE_MUTEX = re.compile(r'\b(std::(\w*mutex|condition_variable\w*|lock_guard|unique_lock|shared_lock|scoped_lock)'
                        r'|absl::(\w*Mutex\w*Lock|Mutex|CondVar)|pthread_mutex_t)\b')

# A comment tells clang nothing, and neither does a mutex that guards no named field of its class.
GUARDED_IN_WORDS = re.compile(r'//.*\bguarded by\s+(?:(?:the|a|its|\w+(?:\'s|s\'))\s+)*(?:`?\w+_\b|\w*mutex\b)', re.IGNORECASE)
MUTEX_FIELD = re.compile(r'^[ \t]*(?:mutable[ \t]+)?Mutex[ \t]+(\w+);', re.MULTILINE)

# Written in two halves, since this file is read too.
MACHINE_PATH = re.compile(r'(?<![\w.\-*})])/(wo' r'rk|ro' r'ot)/')
SLEEP = re.compile(r'\b(sleep_for|sleep_until|SleepFor|usleep|nanosleep|sleep)\s*\(|^\s*sleep\s+[0-9]')
LONGEST_FUNCTION = 120

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
FIND_PACKAGE = re.compile(r'^\s*(find_package|pkg_check_modules|find_library|FetchContent_\w+)\s*\(', re.IGNORECASE)
BLANKED = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
PREPROCESSOR = re.compile(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.MULTILINE)


def within(path, patterns):
    """Whether `path` is one of `patterns`, or lies in a folder that is."""
    return any(fnmatch.fnmatchcase(prefix, pattern) and prefix.count('/') == pattern.count('/')
               for prefix in prefixes(path) for pattern in patterns)


def prefixes(path):
    parts = path.split('/')
    return ['/'.join(parts[:n]) for n in range(1, len(parts) + 1)]


def room_of(path):
    """The (concrete) folder and level of the room of `path`; (None, None) where the table has none."""
    for prefix in reversed(prefixes(path)[:-1]):
        for pattern, level in LEVELS.items():
            if within(prefix, (pattern,)) and prefix.count('/') == pattern.count('/'):
                return prefix, level
    return None, None


def list_files(root):
    """What git knows or would take up; where there is no git, everything but builds."""
    top = subprocess.run(['git', '-C', root, 'rev-parse', '--show-toplevel'], capture_output=True, text=True)
    if top.returncode == 0 and os.path.realpath(top.stdout.strip()) == os.path.realpath(root):
        listing = subprocess.run(['git', '-C', root, 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
                                 capture_output=True, text=True, check=True).stdout
        return sorted(f for f in set(listing.split('\0')) if f and os.path.isfile(os.path.join(root, f)))
    files = []
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f not in ('build', '.git', '__pycache__')]
        files += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(files)


def read(root, path):
    """The text of a file; empty for what is not text."""
    try:
        with open(os.path.join(root, path), encoding='utf-8') as f:
            return f.read()
    except UnicodeDecodeError:
        return ''


def code_only(text):
    """C++ with comments, literals and preprocessor lines blanked out, line by line where it was."""
    def blank(match):
        return re.sub(r'[^\n]', ' ', match.group(0))
    return PREPROCESSOR.sub(blank, BLANKED.sub(blank, text))


def opens_function(head):
    """Whether `head`, the text between the last statement and an opening brace, declares a function."""
    if '(' not in head or re.search(r'\b(namespace|class|struct|union|enum)\b[^()]*$', head):
        return False
    return '=' not in head[head.rindex(')') + 1:] if ')' in head else False


def functions(text):
    """(name, first line, last line) of each function body in C++ text; lambdas belong to the function around them."""
    code = code_only(text)
    found, depth, parens, head_start, opened = [], 0, 0, 0, None
    line = 1
    for at, char in enumerate(code):
        if char == '\n':
            line += 1
        elif char in '([':
            parens += 1
        elif char in ')]':
            parens -= 1
        elif char == '{' and parens == 0:
            head = code[head_start:at]
            if opened is None and opens_function(head):
                opened = (depth, name_of(head), line - head.lstrip().count('\n'))
            depth += 1
        elif char == '}' and parens == 0:
            depth -= 1
            if opened is not None and depth == opened[0]:
                found.append((opened[1], opened[2], line))
                opened = None
        if char in ';{}' and parens == 0:
            head_start = at + 1
    return found


def fields(text):
    """(line, type, name) of each field of each class in C++ text, also of a class inside a function."""
    code = code_only(text)
    found, blocks, parens, start = [], [], 0, 0
    for at, char in enumerate(code):
        if char in '([':
            parens += 1
        elif char in ')]':
            parens -= 1
        if parens > 0:
            continue
        if char == '{':
            head = code[start:at]
            if re.search(r'\b(class|struct|union)\b[^()]*$', head) and not re.search(r'\benum\b', head):
                kind = 'class'
            else:  # without a head: the body of a function whose last initializer has braces
                kind = 'value' if blocks[-1:] == ['class'] and head.strip() and not opens_function(head) else 'block'
            blocks.append(kind)
        elif char == '}' and blocks:
            kind = blocks.pop()
        elif char == ';' and blocks[-1:] == ['class']:
            found += field_of(code, start, at)
        if char == ';' or (char in '{}' and kind != 'value'):
            start = at + 1
    return found


def field_of(code, start, end):
    """[(line, type, name)] of the statement of a class in code[start:end]; empty: it declares something else."""
    while True:
        match = re.match(r'\s*(?:(?:public|private|protected)\s*:)?\s*', code[start:end])
        if match.end() == 0:
            break
        start += match.end()
    statement = code[start:end]
    if not statement or NO_FIELD.search(statement):
        return []
    declared = re.sub(r'\s*(\[[^][]*\]\s*)+$', '', re.split(r'[={]', statement)[0].rstrip())
    flat = declared
    while '<' in flat and flat != (flat := re.sub(r'<[^<>]*>', lambda inner: ' ' * len(inner.group(0)), flat)):
        pass
    name = re.search(r'(\w+)$', flat)
    if '(' in flat or name is None:
        return []
    return [(code.count('\n', 0, start + name.start()) + 1, declared[:name.start()], name.group(1))]


def class_around(code, at):
    """The body of the class around `at`, in code without comments and literals; empty where another block is."""
    first, depth = at, 0
    while first > 0 and depth >= 0:
        first -= 1
        depth += {'}': 1, '{': -1}.get(code[first], 0)
    last, depth = at, 0
    while last < len(code) and depth >= 0:
        depth += {'{': 1, '}': -1}.get(code[last], 0)
        last += 1
    head = re.split(r'[;{}]', code[:first])[-1]
    return code[first:last] if re.search(r'\b(class|struct)\b', head) else ''


def name_of(head):
    match = re.search(r'([\w:~]+)\s*\(', head)
    return match.group(1) if match else '?'


class Tree:
    """The files of one checkout, read once, and the violations found in them."""

    def __init__(self, root):
        self.texts = {path: read(root, path) for path in list_files(root)}
        self.includes = {path: list(self._includes_of(path)) for path in self.texts if path.endswith(('.h', '.cc'))}
        self.headers = {}  # of a room: the code of its headers
        self.problems = []

    def _includes_of(self, path):
        for number, line in enumerate(self.texts[path].splitlines(), 1):
            match = INCLUDE.match(line)
            if match:
                public = 'include/' + match.group(2)
                yield number, match.group(1) == '"', public if public in self.texts else match.group(2)

    def report(self, path, line, rule, what_to_do):
        self.problems.append(f'{path}:{line}: {rule}: {what_to_do}')

    def is_ours(self, header):
        return header in self.texts or (header.split('/')[0] in ('lib',) + ANY_TEST + PROGRAMS and not header.endswith('.pb.h'))

    def check(self):
        for path in self.includes:
            self.check_includes(path)
            self.check_code(path)
            self.check_guards(path)
            self.check_functions(path)
        for path in self.texts:
            self.check_text(path)
        return self.problems

    def check_includes(self, path):
        room, level = room_of(path)
        if room is None:
            self.report(path, 1, 'room', 'this folder is in no room; put the file into one, or add the room to LEVELS '
                        'in tests/lint/layering.py')
            return
        for line, quoted, header in self.includes[path]:
            if self.is_ours(header):
                self.check_own(path, line, room, level, header)
            elif within(path, BUILT_ALONE) and quoted and '/' not in header:
                continue
            elif quoted and os.path.normpath(os.path.join(os.path.dirname(path), header)) in self.texts:
                self.report(path, line, 'include-from-root', f'name "{header}" by its path from the root')
            else:
                self.check_foreign(path, line, header)
        if within(path, STATE_ROOMS):
            self.check_state(path)

    def check_own(self, path, line, room, level, header):
        target, target_level = room_of(header)
        if target is None:
            self.report(path, line, 'room', f'"{header}" is in no room of tests/lint/layering.py')
            return
        if within(path, ANY_TEST):
            return
        program, target_program = path.split('/')[0], header.split('/')[0]
        joined = target_program in PROGRAM_JOINTS.get(path, ())
        if target_program in PROGRAMS and target_program != program and not joined:
            self.report(path, line, 'programs', f'{program} must not include {target_program}; move what both need '
                        'into lib/')
        elif target != room and target_level >= level and not (
                within(path, PEERS) and within(header, PEERS)):
            self.report(path, line, 'levels', f'{room} (level {level}) must not include {target} (level '
                        f'{target_level}); move what is shared down, or hand it in through an interface')

    def check_foreign(self, path, line, header):
        for name, pattern, homes, test_homes in FOREIGN:
            if not re.match(pattern, header):
                continue
            allowed = test_homes if within(path, ANY_TEST) else homes
            if not within(path, allowed):
                self.report(path, line, 'library-home', f'{name} is used only in '
                            f'{", ".join(homes + test_homes)}; go through the room that wraps it')

    def check_state(self, path):
        own_room, _ = room_of(path)
        for line, _, header in self.includes[path]:
            if self.is_ours(header) and not within(header, STATE_SEES + (own_room,)):
                self.report(path, line, 'state', f'a state room sees only {", ".join(STATE_SEES)}; "{header}" is none')
            for chain in self.forbidden_below(header, ()):
                self.report(path, line, 'state', f'{" brings ".join(chain)}: a state room has no thread, lock, clock, '
                            'chance or effect; pass the value in with the event')
        self.check_fields(path, own_room)
        if path.endswith('.h'):
            self.check_life(path)
        for line, code in enumerate(code_only(self.texts[path]).splitlines(), 1):
            match = STATE_FORBIDDEN_WORDS.search(code)
            if match:
                self.report(path, line, 'state', f'{match.group(1).strip("( ")} in a state room; pass the value in '
                            'with the event')

    def check_life(self, path):
        top = self.texts[path].split('#pragma once')[0]
        if not SAYS_ITS_LIFE.search(re.sub(r'\s*\n// ?', ' ', top)):
            self.report(path, 1, 'state-life', 'say above #pragma once how long this lives ("Lives as long as its …"), or that '
                        'it is pure, or plain values')

    def headers_of(self, room):
        if room not in self.headers:
            self.headers[room] = [code_only(text) for path, text in self.texts.items()
                                  if path.endswith('.h') and room_of(path)[0] == room]
        return self.headers[room]

    def check_fields(self, path, room):
        own = self.headers_of(room) + ([] if path.endswith('.h') else [code_only(self.texts[path])])
        ours = {name for code in own for names in TYPE_OF_ROOM.findall(code) for name in names if name}
        aliases = {name: target for code in own for name, target in ALIAS.findall(code)
                   if LEADS_SOMEWHERE.search(target) or HOLDS_A_FUNCTION.search(target)}
        for line, type_of_field, name in fields(self.texts[path]):
            whole = re.sub(r'\b\w+\b', lambda word: aliases.get(word.group(0), word.group(0)), type_of_field)
            if HOLDS_A_FUNCTION.search(whole):
                self.report(path, line, 'state-parts', f'{name} holds a function, which may lead anywhere; take it with the '
                            'call that needs it')
                continue
            leads = POINTS_TO_CONST.sub('', whole)
            if not LEADS_SOMEWHERE.search(leads):
                continue
            for target in sorted(ours.intersection(re.findall(r'\w+', leads))):
                self.report(path, line, 'state-parts', f'{name} leads to {target} of the same room; parts take values and '
                            'give actions back, so pass it in with the call')

    def forbidden_below(self, header, seen):
        """A chain of includes from `header` to what a state room must not see; other state rooms answer for theirs."""
        if STATE_FORBIDDEN_HEADERS.match(header):
            return [seen + (f'<{header}>',)]
        if header in seen or header not in self.includes or within(header, STATE_ROOMS):
            return []
        for _, _, below in self.includes[header]:
            chains = self.forbidden_below(below, seen + (header,))
            if chains:
                return chains[:1]
        return []

    def check_code(self, path):
        raw = self.texts[path].splitlines()
        on_tensor_path = within(path, TENSOR_PATH) and not within(path, TENSOR_MOVER)
        in_tests = within(path, ('tests',))
        for line, code in enumerate(code_only(self.texts[path]).splitlines(), 1):
            if on_tensor_path and MOVES_BYTES.search(code) and not NOT_TENSOR_BYTES.search(
                    '\n'.join(raw[max(0, line - 2):line])):
                self.report(path, line, 'tensor-bytes', f'copy through {TENSOR_MOVER[0]}, which counts; or say on this '
                            'line or above it "// lint: not tensor bytes (why)"')
            if BARE_MUTEX.search(code) and not within(path, MUTEX_HOME):
                self.report(path, line, 'bare-mutex', f'take Mutex, MutexLock and CondVar of {MUTEX_HOME[0]}, and mark what '
                            'is guarded with ABSL_GUARDED_BY')
            if in_tests and SLEEP.search(code):
                self.report(path, line, 'sleep', 'a test waits for an event, or moves a hand-driven clock')

    def check_guards(self, path):
        text = self.texts[path]
        for line, words in enumerate(text.splitlines(), 1):
            if GUARDED_IN_WORDS.search(words):
                self.report(path, line, 'guarded-by', 'mark the field with ABSL_GUARDED_BY: clang checks that, and no comment')
        code = code_only(text)
        for mutex in MUTEX_FIELD.finditer(code):
            body = class_around(code, mutex.start())
            if body and not re.search(r'_GUARDED_BY\(\s*' + mutex.group(1) + r'\s*\)', body):
                self.report(path, code.count('\n', 0, mutex.start(1)) + 1, 'guarded-by',
                            f'no field of this class is marked with ABSL_GUARDED_BY({mutex.group(1)})')

    def check_functions(self, path):
        for name, first, last in functions(self.texts[path]):
            if last - first + 1 > LONGEST_FUNCTION:
                self.report(path, first, 'long-function', f'{name} has {last - first + 1} lines; cut it into steps of '
                            f'under {LONGEST_FUNCTION}')

    def check_text(self, path):
        is_cmake = path.endswith(('CMakeLists.txt', '.cmake')) and path not in FIND_PACKAGE_HOME
        is_test_script = within(path, ('tests',)) and path.endswith(('.py', '.sh')) and not within(path, ('tests/lint',))
        for line, text in enumerate(self.texts[path].splitlines(), 1):
            if MACHINE_PATH.search(text):
                self.report(path, line, 'machine-path', 'name no folder of one machine; take it as an argument')
            if is_cmake and FIND_PACKAGE.match(text):
                self.report(path, line, 'find-package', f'dependencies are found in {FIND_PACKAGE_HOME[0]}')
            if is_test_script and SLEEP.search(text):
                self.report(path, line, 'sleep', 'a test waits for an event')


def print_longest(root, count):
    tree = Tree(root)
    rows = [(last - first + 1, f'{path}:{first}', name)
            for path in tree.includes for name, first, last in functions(tree.texts[path])]
    for length, where, name in sorted(rows, reverse=True)[:count]:
        print(f'{length:4}  {name}  {where}')


def main(arguments):
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(here))
    if arguments[:1] == ['--longest']:
        print_longest(arguments[2] if len(arguments) > 2 else root, int(arguments[1]))
        return 0
    problems = Tree(arguments[0] if arguments else root).check()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
