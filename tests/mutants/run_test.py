#!/usr/bin/env python3
"""run.py on a small tree whose test program is a script: what is found, what survives, what is broken."""

import os
import shutil
import subprocess
import tempfile
import unittest

import run

ADD = '#!/bin/sh\nadd() { echo $(($1 + $2)); }\n'
# A test program of its own: it has one test, and says what it expected.
PROGRAM = '''. ./add.sh
case $1 in
  --gtest_filter=Add.*) ;;
  *) echo "[==========] Running 0 tests from 0 test suites."; exit 0 ;;
esac
[ "$(add 2 3)" = 5 ] || { echo "seed 7: the sum is $(add 2 3)"; exit 1; }
'''
PATCH = '''# Takes away instead of adding.
# Find: add_test
# Test: Add.TwoAndThree
# Invariant: the sum is
--- a/add.sh
+++ b/add.sh
@@ -1,2 +1,2 @@
 #!/bin/sh
-add() { echo $(($1 + $2)); }
+add() { echo $(($1 - $2)); }
'''


def build(tree, program):
    """As a compiler would: refuses bad syntax, and makes a program that runs."""
    status, output = run.run(['sh', '-n', os.path.join(tree, 'add.sh')], 10)
    if status == 0:
        folder = os.path.join(tree, 'build', 'dev', 'tests')
        os.makedirs(folder, exist_ok=True)
        shutil.copyfile(os.path.join(tree, 'program.sh'), os.path.join(folder, program))
        os.chmod(os.path.join(folder, program), 0o755)
    return status, output


class RunTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = os.path.join(folder.name, 'tree')
        self.scratch = os.path.join(self.root, 'build', 'mutants')
        os.makedirs(os.path.join(self.root, 'mutants'))
        self.write('.gitignore', '/build/\n')
        self.write('add.sh', ADD)
        self.write('program.sh', '#!/bin/sh\n' + PROGRAM)
        self.write('mutants/minus.patch', PATCH)
        subprocess.run(['git', 'init', '-q', self.root], check=True)
        self.lines = []

    def write(self, path, text):
        with open(os.path.join(self.root, path), 'w', encoding='utf-8') as f:
            f.write(text)

    def read_copy(self, path):
        with open(os.path.join(self.scratch, 'tree', path), encoding='utf-8') as f:
            return f.read()

    def plant(self, *names, always=False):
        self.runner = run.Runner(self.root, self.scratch, build)
        return self.runner.run(run.choose(os.path.join(self.root, 'mutants'), names, always), self.lines.append)

    def test_a_bug_that_its_test_names_is_found(self):
        self.assertEqual(self.plant(), (1, 0, 0), self.lines)
        self.assertIn('minus', self.lines[0])
        self.assertIn('seed 7', self.lines[0])

    def test_the_copy_is_whole_again_and_the_tree_was_never_touched(self):
        self.plant()
        self.assertEqual(self.read_copy('add.sh'), ADD)
        with open(os.path.join(self.root, 'add.sh'), encoding='utf-8') as f:
            self.assertEqual(f.read(), ADD)

    def test_what_changed_in_the_copy_is_newer_than_what_was_built(self):
        self.plant()
        copy = os.path.join(self.scratch, 'tree', 'add.sh')
        untouched = os.path.join(self.scratch, 'tree', 'program.sh')
        os.utime(copy, (1, 1))
        os.utime(untouched, (1, 1))
        self.write('add.sh', ADD + '# changed\n')
        self.runner.copy.synchronise()
        self.assertGreater(os.path.getmtime(copy), 1)
        self.assertEqual(os.path.getmtime(untouched), 1)

    def test_what_an_interrupted_run_left_is_put_right(self):
        self.plant()
        with open(os.path.join(self.scratch, 'tree', 'add.sh'), 'w', encoding='utf-8') as f:
            f.write('exit 1\n')
        with open(os.path.join(self.scratch, 'tree', 'novel.sh'), 'w', encoding='utf-8') as f:
            f.write('exit 1\n')
        self.assertEqual(self.plant(), (1, 0, 0), self.lines)
        self.assertFalse(os.path.exists(os.path.join(self.scratch, 'tree', 'novel.sh')))

    def test_a_bug_that_the_test_does_not_see_survives(self):
        self.write('mutants/minus.patch', PATCH.replace('$1 - $2', '$2 + $1'))
        self.assertEqual(self.plant(), (0, 1, 0))
        self.assertIn('NOT FOUND: the test passes', self.lines[0])

    def test_a_failure_for_another_reason_is_no_find(self):
        self.write('mutants/minus.patch', PATCH.replace('the sum is', 'the product is'))
        self.assertEqual(self.plant(), (0, 1, 0))
        self.assertIn('does not say so', self.lines[0])

    def test_a_patch_that_does_not_apply_is_named(self):
        self.write('add.sh', ADD.replace('$1 + $2', '$2 + $1'))
        self.assertEqual(self.plant(), (0, 0, 1))
        self.assertIn('minus: the patch does not apply any more', self.lines[0])

    def test_a_patch_that_does_not_build_is_named(self):
        self.write('mutants/minus.patch', PATCH.replace('$1 - $2)); }', '$1 - $2)'))
        self.assertEqual(self.plant(), (0, 0, 1))
        self.assertIn('does not build with the patch', self.lines[0])
        self.assertEqual(self.read_copy('add.sh'), ADD)

    def test_a_test_that_fails_without_the_patch_is_named(self):
        self.write('program.sh', '#!/bin/sh\nexit 1\n')
        self.assertEqual(self.plant(), (0, 0, 1))
        self.assertIn('does not pass without the patch', self.lines[0])

    def test_a_filter_that_names_no_test_is_named(self):
        self.write('mutants/minus.patch', PATCH.replace('Add.TwoAndThree', 'Sub.TwoAndThree'))
        self.assertEqual(self.plant(), (0, 0, 1))
        self.assertIn('has no test Sub.TwoAndThree', self.lines[0])

    def test_one_that_is_broken_does_not_keep_others_from_being_found(self):
        self.write('mutants/zero.patch', PATCH.replace('-add() {', '-sub() {'))
        self.assertEqual(self.plant(), (1, 0, 1), self.lines)

    def test_names_choose_and_an_unknown_one_is_refused(self):
        self.write('mutants/swap.patch', PATCH.replace('$1 - $2', '$2 - $1'))
        self.assertEqual(self.plant('swap'), (1, 0, 0))
        with self.assertRaisesRegex(run.Broken, 'no planted bug nothing; there are: minus, swap'):
            self.plant('nothing')

    def test_always_chooses_those_that_say_so(self):
        self.write('mutants/swap.patch', PATCH.replace('# Invariant', '# Always: yes\n# Invariant'))
        self.assertEqual(self.plant(always=True), (1, 0, 0))
        self.assertIn('swap', self.lines[0])

    def test_a_patch_without_its_header_is_refused(self):
        self.write('mutants/minus.patch', PATCH.replace('# Invariant: the sum is\n', ''))
        with self.assertRaisesRegex(run.Broken, 'minus: the patch has no line "# Invariant'):
            self.plant()


if __name__ == '__main__':
    unittest.main()
