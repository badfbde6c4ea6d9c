#!/usr/bin/env python3
"""Compares README.md and docs/ with the code.

usage: documents.py [ROOT]              prints one line per contradiction, exit status 1 if there is any
       documents.py --metrics [ROOT]    prints the table of docs/metrics.md, made from lib/metrics/catalog.h

Links and named files exist, and so do the documents and sections that comments in the code name. What the code offers
to people (commands, options, events, metrics, requests, fault plans, failpoints) is described, and what is described is
offered. Lines of text are no longer than 120. The rules are the functions named check_… below.
"""

import glob
import os
import re
import sys

README, GLOSSARY = 'README.md', 'docs/glossary.md'
# Words of the glossary that README also uses as everybody does.
EVERYDAY_WORDS = {'base', 'batch', 'gap', 'job', 'node', 'sample', 'seal', 'state', 'tree'}
OPERATIONS, METRICS, REST, TESTING = 'docs/operations.md', 'docs/metrics.md', 'docs/rest.md', 'docs/testing.md'
DECISIONS = 'docs/decisions'

# `lib/wire/reader.h` in a text is a file of ours; so is a folder, and a room without the ending of its files.
OUR_FOLDERS = ('proto', 'lib', 'coordinator', 'server', 'worker', 'agent', 'cli', 'tests', 'bench', 'docs', 'examples', 'cmake', 'clients')
NAMED_FILE = re.compile(r'`((?:%s)/[\w./-]+)`' % '|'.join(OUR_FOLDERS))
LINK = re.compile(r'(?<!!)\[[^\]]*\]\(([^)\s]+)\)')
# Of text; tables, code and links by themselves may be as long as they are.
MOST_COLUMNS = 120
FENCE = re.compile(r'^ *```.*?^ *```', re.MULTILINE | re.DOTALL)
HEADING = re.compile(r'^#+ +(.+?) *$', re.MULTILINE)

# In a comment, "docs/x.md section 3" or "docs/x.md sections 1, 4 and 6 to 8" is a place in a document.
SOURCES = re.compile(r'.*(\.(cc|h|proto|cmake)|CMakeLists\.txt)$')
NAMED_PLACE = re.compile(r'\b(docs/[\w./-]+\.md)(?: sections? (\d+(?:\.\d+)*(?:(?:, | and | to )\d+(?:\.\d+)*)*))?')
NAMED_FROM_OUTSIDE = re.compile(r'\b(?:PROTOCOL|ARCHITECTURE)\b')
SECTION = re.compile(r'^#+ +(\d+(?:\.\d+)*)\.? ', re.MULTILINE)

# Words in docs that look like options of ours and are those of others.
FOREIGN_OPTIONS = {'--bind-to', '--config', '--help', '--kill-on-bad-exit', '--rdzv-id', '--signal', '--test-dir'}


def read(root, path):
    with open(os.path.join(root, path), encoding='utf-8') as f:
        return f.read()


def read_all(root, pattern):
    return '\n'.join(read(root, os.path.relpath(p, root)) for p in sorted(glob.glob(os.path.join(root, pattern), recursive=True)))


def without_comments(text):
    return re.sub(r'//[^\n]*', '', text)


def flowing(text):
    """The text in one line, without what begins the lines of a comment: a place may stand across two of them."""
    return re.sub(r'\s*\n[ \t]*(?://|#)?[ \t]*', ' ', text)


def sources(root):
    """Every source file of ours, below our folders and beside them."""
    paths = [p for folder in OUR_FOLDERS for p in glob.glob(os.path.join(root, folder, '**'), recursive=True)]
    return sorted(os.path.relpath(p, root) for p in paths + glob.glob(os.path.join(root, '*')) if SOURCES.match(p))


def anchor(heading):
    """The anchor that a heading gets."""
    text = re.sub(r'\[([^\]]*)\]\([^)]*\)', r'\1', heading).lower()
    return re.sub(r'[^\w\- ]', '', text).replace(' ', '-')


def anchors(text):
    return {anchor(h) for h in HEADING.findall(FENCE.sub('', text))}


def documents(root):
    paths = [p for p in ['README.md'] if os.path.exists(os.path.join(root, p))]
    return paths + sorted(os.path.relpath(p, root) for p in glob.glob(os.path.join(root, 'docs/**/*.md'), recursive=True))


def metrics(root):
    """(name, kind, unit, label, help) of each entry of the catalogue."""
    text = read(root, 'lib/metrics/catalog.h')
    table = text[text.index('kCatalog[] = {'):text.index('\n};', text.index('kCatalog[] = {'))]
    entry = re.compile(r'\{"(\w+)",\s*MetricKind::k(\w+),\s*"([^"]*)",\s*"([^"]*)",\s*((?:"[^"]*"\s*)+)\}')
    return [(name, kind.lower(), unit, label, ''.join(re.findall(r'"([^"]*)"', text)))
            for name, kind, unit, label, text in entry.findall(table)]


def metrics_table(root):
    rows = ['| metric | kind | unit | label | meaning |', '|---|---|---|---|---|']
    for name, kind, unit, label, text in metrics(root):
        rows.append(f'| `{name}` | {kind} | {"" if unit == "1" else unit} | {f"`{label}`" if label else ""} | {text} |')
    return '\n'.join(rows) + '\n'


def options(root):
    """Every option of every program."""
    code = read_all(root, 'cli/arguments*.cc') + read_all(root, 'lib/launch/*.cc') + read_all(root, '*/main.cc')
    declared = re.findall(r'add_(?:option|flag)\(\s*"([^"]+)"', code) + re.findall(r'set_version_flag\("([^"]+)"', code)
    return {o for names in declared for o in names.split(',') if o.startswith('--')}


def commands(root):
    code = read_all(root, 'cli/arguments*.cc')
    return set(re.findall(r'(?:add_subcommand\(|AddRemote\(app, |with_job\()\s*"(\w+)"', code))


def events(root):
    """Every name of an event, of the coordinator and of `muster train --json`."""
    decided = without_comments(read_all(root, 'coordinator/state/*.cc'))
    names = {n for first in re.findall(r'\bSay\(([^,]*),', decided) for n in re.findall(r'"(\w+)"', first)}
    names |= set(re.findall(r'\bAnnounce\{[^,{}]+,\s*"(\w+)"', decided))
    names |= set(re.findall(r'\bNotice\("(\w+)"', read(root, 'coordinator/runtime/event_log.cc')))
    shown = without_comments(read_all(root, 'cli/*.cc'))
    return names | set(re.findall(r'\{"event", "(\w+)"\}', shown)) | set(re.findall(r'\bShowEvent\(\s*"(\w+)"', shown))


def requests(root):
    code = read_all(root, 'coordinator/service/rest*.cc')
    routes = set(re.findall(r'"(GET|POST|DELETE|PUT|PATCH)",\s*"([^"]+)"', code))
    return {f'{method} {path}' for method, path in routes}


def calls(root):
    return set(re.findall(r'^\s*rpc (\w+)\(', read(root, 'proto/muster/v1/control.proto'), re.MULTILINE))


def failpoints(root):
    text = read(root, 'lib/base/failpoint.h')
    return set(re.findall(r'"(\w+)"', text[text.index('kFailpointNames'):text.index('};', text.index('kFailpointNames'))]))


def fault_fields(root):
    code = read(root, 'agent/runtime/fault_plan.cc')
    return set(re.findall(r'\bkey == "(\w+)"', code))


def first_cells(text, heading):
    """The code words in the first cells of the first table after a heading."""
    section = text[text.index(heading):]
    section = section[section.index('\n|'):]
    rows = re.match(r'(?:\n\|[^\n]*)+', section).group(0).strip().split('\n')[2:]
    return {word for row in rows for word in re.findall(r'`([^`]+)`', row.split('|')[1])}


class Check:
    def __init__(self, root):
        self.root = root
        self.problems = []

    def report(self, path, what):
        self.problems.append(f'{path}: {what}')

    def compare(self, path, what, offered, described):
        for name in sorted(offered - described):
            self.report(path, f'{what} {name} is not described')
        for name in sorted(described - offered):
            self.report(path, f'{what} {name} is described, but the code has none')

    def run(self):
        for path in documents(self.root):
            self.check_links(path)
            self.check_named_files(path)
            self.check_columns(path)
        for path in sources(self.root):
            self.check_named_places(path)
        self.check_decisions()
        self.check_glossary()
        self.check_commands()
        self.check_options()
        self.check_events()
        self.check_metrics()
        self.check_requests()
        self.check_failpoints()
        self.check_fault_plans()
        return self.problems

    def check_links(self, path):
        text = read(self.root, path)
        for target in LINK.findall(FENCE.sub('', text)):
            if re.match(r'\w+:', target):
                continue
            file, _, place = target.partition('#')
            where = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
            if not os.path.exists(os.path.join(self.root, where)):
                self.report(path, f'link to {target}: there is no {where}')
            elif place and where.endswith('.md') and place not in anchors(read(self.root, where)):
                self.report(path, f'link to {target}: {where} has no such heading')

    def check_columns(self, path):
        text = FENCE.sub(lambda code: '\n' * code.group().count('\n'), read(self.root, path))
        for number, line in enumerate(text.split('\n'), 1):
            is_text = not line.startswith(('|', '    ')) and re.search(r'\w', LINK.sub('', line))
            if is_text and len(line) > MOST_COLUMNS:
                self.report(f'{path}:{number}', f'has {len(line)} columns; at most {MOST_COLUMNS}')

    def check_named_files(self, path):
        for name in NAMED_FILE.findall(FENCE.sub('', read(self.root, path))):
            whole = os.path.join(self.root, name.rstrip('/'))
            if not (os.path.exists(whole) or glob.glob(whole + '.*')):
                self.report(path, f'{name} is named, but there is no such file')

    def check_named_places(self, path):
        text = flowing(read(self.root, path))
        if NAMED_FROM_OUTSIDE.search(text):
            self.report(path, f'{NAMED_FROM_OUTSIDE.search(text).group()} is not a document here; name the one under docs/')
        for document, numbers in NAMED_PLACE.findall(text):
            if not os.path.exists(os.path.join(self.root, document)):
                self.report(path, f'{document} is named, but there is no such file')
                continue
            there = set(SECTION.findall(FENCE.sub('', read(self.root, document))))
            for number in re.findall(r'[\d.]*\d', numbers):
                if number not in there:
                    self.report(path, f'{document} section {number} is named, but there is no such section')

    def check_decisions(self):
        names = sorted(os.path.basename(p) for p in glob.glob(os.path.join(self.root, DECISIONS, '[0-9]*.md')))
        for number, name in enumerate(names, 1):
            path = f'{DECISIONS}/{name}'
            if not name.startswith(f'{number:04}-'):
                return self.report(path, f'number {number:04} should come here; each number is used once')
            if not read(self.root, path).startswith(f'# {number}. '):
                self.report(path, f'its title should begin with "# {number}. "')
            if f'({name})' not in read(self.root, f'{DECISIONS}/README.md'):
                self.report(path, f'{DECISIONS}/README.md does not list it')

    def check_glossary(self):
        """The glossary is in order and says each word in one line; README says a word, in *italics*, where it first uses it,
        and before its picture does."""
        rows = re.findall(r'^\| ([a-z ]+) \| (.*) \|$', read(self.root, GLOSSARY), re.MULTILINE)[1:]
        words = [word for word, _ in rows]
        if words != sorted(set(words)):
            self.report(GLOSSARY, 'its words are not in order, or one stands twice')
        text = FENCE.sub('', read(self.root, README))
        text = re.sub(r'`[^`]*`|^#.*$|\]\([^)]*\)', '', text, flags=re.MULTILINE)
        for word in sorted(set(words) - EVERYDAY_WORDS):
            first = re.search(r'\b%ss?\b' % word, text, re.IGNORECASE)
            if first and not re.match(r'\*', text[first.start() - 1:]):
                line = text[text.rfind('\n', 0, first.start()) + 1:first.end()]
                self.report(README, f'uses "{word}" before it says what that is (*{word}*): …{line[-60:]}')
        picture = re.search(r'^## The picture$\s*^```$(.*?)^```$', read(self.root, README), re.MULTILINE | re.DOTALL)
        for word in sorted(set(words) - EVERYDAY_WORDS) if picture else ():
            said_before = re.search(r'\*%ss?\b' % word, picture.string[:picture.start()], re.IGNORECASE)
            if not said_before and re.search(r'\b%ss?\b' % word, picture[1], re.IGNORECASE):
                self.report(README, f'its picture uses "{word}" before it says what that is (*{word}*)')
        for said in sorted(set(re.findall(r'(?<!\*)\*([a-z][a-z ]*?)\*(?!\*)', text))):
            if not {said, said.rstrip('s'), said.removesuffix('ed')} & set(words):
                self.report(README, f'says what "{said}" is, and {GLOSSARY} does not')

    def check_commands(self):
        described = {word.split()[1] for word in first_cells(read(self.root, OPERATIONS), '## Commands')
                     if word.startswith('muster ')}
        self.compare(OPERATIONS, 'command', commands(self.root), described)

    def check_options(self):
        described = set(re.findall(r'(?<![\w-])--[a-z][a-z_-]*', read(self.root, OPERATIONS)))
        self.compare(OPERATIONS, 'option', options(self.root) - FOREIGN_OPTIONS, described - FOREIGN_OPTIONS)

    def check_events(self):
        described = first_cells(read(self.root, OPERATIONS), '## Output for programs')
        self.compare(OPERATIONS, 'event', events(self.root), described)

    def check_metrics(self):
        if not metrics(self.root):
            self.report('lib/metrics/catalog.h', 'no entry was found; see metrics() in tests/lint/documents.py')
        if metrics_table(self.root) not in read(self.root, METRICS):
            self.report(METRICS, 'its table is not that of lib/metrics/catalog.h; put in what '
                        'tests/lint/documents.py --metrics prints')

    def check_requests(self):
        text = read(self.root, REST)
        words = first_cells(text, '## Requests')
        described = {w if ' ' in w else f'GET {w}' for w in words}
        self.compare(REST, 'request', requests(self.root) | {f'GET {p}' for p in ('/metrics', '/healthz', '/readyz')}, described)
        for call in sorted(calls(self.root)):
            if f'`{call}`' not in text:
                self.report(REST, f'call {call} is not described')

    def check_fault_plans(self):
        described = first_cells(read(self.root, OPERATIONS), '## Fault plans')
        self.compare(OPERATIONS, 'field of a fault plan', fault_fields(self.root),
                     {word for word in described if re.fullmatch(r'\w+', word)})

    def check_failpoints(self):
        self.compare(TESTING, 'failpoint', failpoints(self.root), first_cells(read(self.root, TESTING), '## Failpoints'))


def main(arguments):
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(here))
    if arguments[:1] == ['--metrics']:
        print(metrics_table(arguments[1] if len(arguments) > 1 else root), end='')
        return 0
    problems = Check(arguments[0] if arguments else root).run()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
