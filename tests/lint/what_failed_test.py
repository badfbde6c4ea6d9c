#!/usr/bin/env python3
"""what_failed.py on the log of a real run of ctest."""

import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'what_failed.py')
TESTS = '''
add_test(checks "sh" "-c" "echo before; echo 'sum_test.cc:3: Failure'; for i in $(seq 40); do echo line $i; done; exit 1")
add_test(passes "echo" "nobody wants to read this")
add_test(waits "sh" "-c" "echo I wait; exec sleep 60")
add_test(absent "/nonexistent/program")
set_tests_properties(waits PROPERTIES TIMEOUT 1)
'''


class WhatFailedTest(unittest.TestCase):

    def test_each_test_that_failed_is_named_with_its_check_and_its_last_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, 'CTestTestfile.cmake'), 'w', encoding='utf-8') as f:
                f.write(TESTS)
            subprocess.run(['ctest'], cwd=folder, capture_output=True, check=False)
            told = subprocess.run([sys.executable, PROGRAM, folder], capture_output=True, text=True, check=True).stdout
        self.assertEqual([line for line in told.splitlines() if line.startswith('*')], ['* checks', '* waits', '* absent'])
        for line in ['    sum_test.cc:3: Failure', '    line 1', '    …', '    line 40', '    I wait']:
            self.assertIn(line, told.splitlines())
        for line in ['    before', '    line 20', '    nobody wants to read this']:
            self.assertNotIn(line, told.splitlines())


if __name__ == '__main__':
    unittest.main()
