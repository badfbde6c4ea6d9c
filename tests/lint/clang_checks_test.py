#!/usr/bin/env python3
"""clang refuses what is planted against lib/base/mutex.h and .clang-tidy, and is asked again only about what changed."""

import contextlib
import io
import json
import os
import subprocess
import tempfile
import unittest

import clang_checks

HERE = os.path.dirname(os.path.abspath(__file__))
MUTEX = os.path.join(os.path.dirname(os.path.dirname(HERE)), clang_checks.MUTEX)

BOX = '''#include "lib/base/mutex.h"
namespace muster {
class Box {
 public:
  void Put(int value);
  int AwaitFull();

 private:
  void PutLocked(int value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { value_ = value; }
  Mutex mutex_;
  CondVar changed_;
  int value_ ABSL_GUARDED_BY(mutex_) = 0;
};
}  // namespace muster
'''
GUARDED = '''#include "lib/base/box.h"
namespace muster {
void Box::Put(int value) {
  MutexLock lock(mutex_);
  PutLocked(value);
  lock.Unlock();
  changed_.NotifyAll();
  lock.Relock();
  ++value_;
}
int Box::AwaitFull() {
  MutexLock lock(mutex_);
  while (value_ == 0) changed_.Wait(mutex_);
  return value_;
}
}  // namespace muster
'''
# (what stands there, what is planted instead)
PLANTED = [
    ('  MutexLock lock(mutex_);\n  PutLocked(value);', '  MutexLock lock(mutex_);\n  lock.Unlock();\n  PutLocked(value);'),
    ('  lock.Relock();\n', ''),
    ('  MutexLock lock(mutex_);\n  while (value_ == 0)', '  while (value_ == 0)'),
    ('  while (value_ == 0) changed_.Wait(mutex_);\n', '  lock.Unlock();\n'),
]

# (code that clang-tidy refuses, by which check)
UNTIDY = [
    ('#include <string>\n#include <utility>\nvoid Keep(std::string);\n'
     'bool F(std::string a) {\n  Keep(std::move(a));\n  return a.empty();\n}\n', 'bugprone-use-after-move'),
    ('#include <string>\nbool F(const std::string& a) { return a.size() == 0; }\n', 'readability-container-size-empty'),
    ('#include "lib/base/box.h"\nstruct A {\n  A(int a);\n};\n', 'google-explicit-constructor'),
]


class Tree:
    """A small tree of sources with a build folder and a memory of its own."""

    def __init__(self, folder):
        self.root = os.path.join(folder, 'tree')
        self.build = os.path.join(self.root, 'build')
        self.memory = clang_checks.Memory(os.path.join(folder, 'memory'))
        with open(MUTEX, encoding='utf-8') as f:
            self.write('lib/base/mutex.h', f.read())
        time_h = os.path.join(os.path.dirname(MUTEX), 'time.h')
        with open(time_h, encoding='utf-8') as f:
            self.write('lib/base/time.h', f.read())
        self.write('lib/base/box.h', BOX)
        self.write('lib/base/box.cc', GUARDED)
        self.write('lib/base/user.h', '#include "lib/base/box.h"\n')
        self.write('lib/base/far.cc', '#include "lib/base/user.h"\n')
        self.write('build/compile_commands.json', json.dumps([
            {'directory': self.build, 'file': os.path.join(self.root, path),
             'command': f'g++ -I{self.root} -std=c++20 -Wno-everything -Wthread-safety -Werror=thread-safety '
                        f'-o {path}.o -c {os.path.join(self.root, path)}'}
            for path in ('lib/base/box.cc', 'lib/base/far.cc')]))

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as f:
            f.write(text)

    def sources(self):
        return clang_checks.Sources(self.root, self.build)

    def check(self):
        sources = self.sources()
        return clang_checks.check(sources, ['lib/base/box.cc'], sources.analysis, b'', self.memory)


class ClangChecksTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.tree = Tree(self.folder.name)

    def said(self):
        sources = self.tree.sources()
        return clang_checks.look(sources.analysis('lib/base/box.cc'), self.tree.build)

    def test_what_holds_the_mutex_passes(self):
        self.assertEqual(self.said(), '')

    def test_what_does_not_is_refused(self):
        for stands, planted in PLANTED:
            with self.subTest(planted=planted):
                self.assertIn(stands, GUARDED)
                self.tree.write('lib/base/box.cc', GUARDED.replace(stands, planted))
                self.assertRegex(self.said(), r"box\.cc:\d+:\d+: error: .*mutex_.*\[-Werror,-Wthread-safety-analysis\]")

    def test_clang_tidy_refuses_what_its_list_names(self):
        with open(os.path.join(os.path.dirname(os.path.dirname(HERE)), '.clang-tidy'), encoding='utf-8') as f:
            self.tree.write('.clang-tidy', f.read())
        sources = self.tree.sources()
        self.assertEqual(clang_checks.look(sources.tidying('lib/base/box.cc'), self.tree.build), '')
        for code, check in UNTIDY:
            with self.subTest(check=check):
                self.tree.write('lib/base/far.cc', code)
                self.assertIn(f'[{check},', clang_checks.look(sources.tidying('lib/base/far.cc'), self.tree.build))

    def test_only_sources_that_can_touch_a_guarded_field_are_looked_at(self):
        sources = self.tree.sources()
        self.assertTrue(sources.touches_guarded('lib/base/box.cc'))
        self.assertFalse(sources.touches_guarded('lib/base/far.cc'))

    def test_what_was_good_is_remembered_until_a_header_changes(self):
        self.assertEqual(self.tree.check(), (0, 1, 0))
        self.assertEqual(self.tree.check(), (0, 0, 0))
        self.tree.write('lib/base/box.h', BOX + '// changed\n')
        self.assertEqual(self.tree.check(), (0, 1, 0))

    def test_what_was_bad_is_looked_at_again(self):
        self.tree.write('lib/base/box.cc', GUARDED.replace(*PLANTED[0]))
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.assertEqual(self.tree.check(), (1, 1, 0))
            self.assertEqual(self.tree.check(), (1, 1, 0))
        self.assertEqual(printed.getvalue().count(' generated.'), 2)

    def test_what_there_is_no_time_for_is_left(self):
        sources = self.tree.sources()
        done = clang_checks.check(sources, ['lib/base/box.cc'], sources.analysis, b'', self.tree.memory, seconds=-1)
        self.assertEqual(done, (0, 0, 1))
        self.assertEqual(self.tree.check(), (0, 1, 0))

    def test_a_changed_header_brings_its_source(self):
        sources = self.tree.sources()
        self.assertEqual(clang_checks.concerned(sources, {'lib/base/box.h', 'docs/x.md'}), ['lib/base/box.cc'])
        self.assertEqual(clang_checks.concerned(sources, {'lib/base/user.h'}), ['lib/base/far.cc'])

    def test_changed_means_since_main_and_on_main_the_last_commit(self):
        def git(*words):
            subprocess.run(['git', '-C', self.tree.root, '-c', 'user.name=a', '-c', 'user.email=a@b', *words], check=True,
                           capture_output=True)
        self.tree.write('.gitignore', '/build/\n')
        git('init', '-b', 'main')
        git('add', '.')
        git('commit', '-m', 'one')
        self.assertEqual(clang_checks.changed_files(self.tree.root), set())
        self.tree.write('lib/base/user.h', '#include "lib/base/box.h"\n// two\n')
        git('commit', '-a', '-m', 'two')
        self.tree.write('lib/base/novel.cc', '\n')
        self.assertEqual(clang_checks.changed_files(self.tree.root), {'lib/base/user.h', 'lib/base/novel.cc'})
        git('checkout', '-b', 'branch')
        self.tree.write('lib/base/far.cc', '#include "lib/base/user.h"\n// three\n')
        git('add', '.')
        git('commit', '-m', 'three')
        git('commit', '--allow-empty', '-m', 'four')
        self.assertEqual(clang_checks.changed_files(self.tree.root), {'lib/base/far.cc', 'lib/base/novel.cc'})


if __name__ == '__main__':
    unittest.main()
