#!/usr/bin/env python3
"""planted.py on small trees: what is sound passes, and each fault of a patch is named."""

import os
import tempfile
import unittest

import planted

TREE = {
    'lib/add.cc': 'int Add(int a, int b) {\n  return a + b;\n}\n',
    'tests/lib/add_test.cc':
        'TEST(Add, Nothing) {\n  EXPECT_EQ(Add(2, 0), 2);\n}\n\nTEST_F(Rig, TwoAndThree) {\n  EXPECT_EQ(Add(2,\n'
        '                3), 5) << "the sum";\n}\n',
}
PATCH = '''# Takes away instead of adding.
# Find: add_test
# Test: Rig.TwoAndThree
# Invariant: the sum
--- a/lib/add.cc
+++ b/lib/add.cc
@@ -1,3 +1,3 @@
 int Add(int a, int b) {
-  return a + b;
+  return a - b;
 }
'''


class PlantedTest(unittest.TestCase):

    def problems_of(self, patch, tree=None):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**TREE, **(tree or {}), 'tests/mutants/minus.patch': patch}.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), 'w', encoding='utf-8') as f:
                    f.write(text)
            return list(planted.problems(root))

    def assert_one(self, problems, words):
        self.assertEqual(len(problems), 1, problems)
        self.assertIn('tests/mutants/minus.patch: planted-bug: ', problems[0])
        self.assertIn(words, problems[0])

    def test_a_sound_patch_passes(self):
        self.assertEqual(self.problems_of(PATCH), [])

    def test_an_expression_across_two_lines_is_found(self):
        self.assertEqual(self.problems_of(PATCH.replace('the sum', 'Add(2, 3)')), [])

    def test_all_tests_of_a_suite_may_be_meant(self):
        self.assertEqual(self.problems_of(PATCH.replace('Rig.TwoAndThree', 'Rig.*')), [])

    def test_a_patch_that_does_not_apply_is_named(self):
        self.assert_one(self.problems_of(PATCH, {'lib/add.cc': 'int Add(int a, int b) { return a + b; }\n'}),
                        'does not apply any more')

    def test_words_that_the_test_does_not_say_are_named(self):
        self.assert_one(self.problems_of(PATCH.replace('the sum', 'the difference')),
                        'Rig.TwoAndThree does not say "the difference"')

    def test_words_of_another_test_do_not_count(self):
        self.assert_one(self.problems_of(PATCH.replace('the sum', 'Add(2, 0)')), 'does not say "Add(2, 0)"')

    def test_a_test_that_is_not_there_is_named(self):
        self.assert_one(self.problems_of(PATCH.replace('Rig.TwoAndThree', 'Rig.Two')), 'there is no test Rig.Two')

    def test_a_head_without_a_line_is_named(self):
        self.assert_one(self.problems_of(PATCH.replace('# Test: Rig.TwoAndThree\n', '')), 'no line "# Test: …"')

    def test_the_words_of_the_simulator_are_put_together_at_run_time(self):
        self.assertEqual(self.problems_of(PATCH.replace('add_test', planted.SIMULATOR)), [])


if __name__ == '__main__':
    unittest.main()
