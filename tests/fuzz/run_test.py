#!/usr/bin/env python3
"""run.py with programs that are scripts: what is sound, below its floor, or found something."""

import contextlib
import io
import os
import tempfile
import unittest
import unittest.mock

import run

# A target of its own: it makes one seed, and its name says how it ends.
PROGRAM = '''#!/bin/sh
for argument; do
  case $argument in
    --seeds=*) echo seed >"${argument#--seeds=}/seed-0"; exit 0 ;;
    -merge=1) merging=1 ;;
  esac
done
if [ -n "$merging" ]; then cp "$4"/* "$3"; exit 0; fi
if [ -n "$MUSTER_FUZZ_NAMES" ]; then
  for name; do [ -d "$name" ] && set -- "$@" "$name"/*; done
  for name; do [ -f "$name" ] && reached="$reached f$(wc -c <"$name")"; done
  case $0 in *_floor) ;; *) reached="$reached f90" ;; esac
  for name in $reached; do echo "refused field: $name"; done
  echo "reached: 1 of 1 refused field"
  case "$reached " in *" f90 "*) ;; *) echo "not reached: refused field f90" ;; esac
  exit 0
fi
echo "#99 DONE cov: 12 ft: 30"
echo "reached: 3 of 4 field"
echo "stat::number_of_executed_units: 99"
case $0 in
  *_low) echo "not reached: field a.b"; exit 3 ;;
  *_slow) echo run >>"$0.runs"; echo "processor: 0.4 seconds"; [ $(wc -l <"$0.runs") -ge 2 ] || exit 3 ;;
  *_bad) echo "unsound: the words of the finding"; exit 77 ;;
esac
case $0 in *_much|*_floor) count=100 ;; *) count=1 ;; esac
for folder; do case $folder in */found/*)
  for number in $(seq 7 $((6 + count))); do head -c $number /dev/zero >"$folder/$(printf %040d $number)"; done ;;
esac; done
'''


class RunTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.addCleanup(setattr, run, 'BUILD', run.BUILD)
        self.addCleanup(setattr, run, 'KEPT', run.KEPT)
        run.BUILD, run.KEPT = os.path.join(self.folder, 'build'), os.path.join(self.folder, 'corpus')

    def target(self, name):
        path = os.path.join(run.folder_of(run.BUILD, 'fuzz'), 'fuzz_' + name)
        with open(path, 'w', encoding='utf-8') as f:
            f.write(PROGRAM)
        os.chmod(path, 0o755)

    def main(self, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = run.main(list(arguments))
        return status, said.getvalue()

    def test_sound_targets(self):
        self.target('one')
        self.target('two')
        status, said = self.main('--seconds', '1')
        self.assertEqual(status, 0)
        self.assertIn('one: 99 executions, 12 edges; 3 of 4 field\n', said)
        self.assertIn('2 of 2 fuzz targets are sound', said)

    def test_below_the_floor(self):
        self.target('one')
        self.target('low')
        status, said = self.main('--seconds', '1')
        self.assertEqual(status, 1)
        self.assertIn('not reached: field a.b\nlow: below the floor', said)
        self.assertIn('1 of 2 fuzz targets are sound', said)

    def test_below_the_floor_for_want_of_a_processor(self):
        self.target('slow')
        status, said = self.main('--seconds', '1')
        self.assertEqual(status, 0, said)

    def test_a_finding(self):
        self.target('bad')
        status, said = self.main('--seconds', '1', 'bad')
        self.assertEqual(status, 1)
        self.assertIn('unsound: the words of the finding', said)
        self.assertIn('bad: a finding (exit status 77)', said)

    def test_no_such_target(self):
        self.target('one')
        with self.assertRaisesRegex(SystemExit, "no target 'two'; there are: one"):
            self.main('two')

    def test_keeps_what_reaches_more_than_the_seeds(self):
        self.target('one')
        named = os.path.join(run.folder_of(run.KEPT, 'one'), 'what-it-was')
        for name in (named, os.path.join(run.KEPT, 'one', 'f' * 40)):
            with open(name, 'w', encoding='utf-8') as f:
                f.write('old')
        self.main('--seconds', '1', '--keep', 'one')
        self.assertEqual(sorted(os.listdir(os.path.join(run.KEPT, 'one'))), ['0' * 39 + '7', 'f' * 40, 'what-it-was'])

    def test_keeps_no_more_than_a_few_small_ones(self):
        self.target('much')
        self.main('--seconds', '1', '--keep', 'much')
        self.assertEqual(sorted(os.listdir(os.path.join(run.KEPT, 'much'))), [f'{n:040}' for n in range(7, 7 + 64)])
        self.assertEqual(run.KEPT_INPUTS, 64)

    def test_keeps_what_the_floor_needs(self):
        self.target('floor')
        _, said = self.main('--seconds', '1', '--keep', 'floor')
        self.assertEqual(sorted(os.listdir(os.path.join(run.KEPT, 'floor'))),
                         [f'{n:040}' for n in [*range(7, 7 + 64), 90]])
        self.assertIn('floor: 65 inputs are kept, 1 of them for the floor\n', said)

    def test_says_what_no_kept_input_reaches(self):
        self.target('floor')
        with unittest.mock.patch.object(run, 'KEPT_INPUT_BYTES', 80):
            _, said = self.main('--seconds', '1', '--keep', 'floor')
        self.assertIn('no input is found that reaches refused field: f90\n', said)


if __name__ == '__main__':
    unittest.main()
