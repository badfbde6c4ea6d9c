"""clients/python is built as a wheel and used from a fresh environment, as a person gets it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

from cluster import SOURCE, WHEELS, main

HERE = Path(__file__).resolve().parent
PACKAGE = SOURCE / 'clients/python'


def run(*words, **more):
    said = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=500, **more)
    assert said.returncode == 0, said.stdout
    return said.stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix='muster-package-'))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        sources = shutil.copytree(PACKAGE, cls.folder / 'sources')  # as building leaves files beside them
        run(sys.executable, '-m', 'pip', 'wheel', '--quiet', '--no-index', '--no-deps', '--no-build-isolation',
            '--wheel-dir', cls.folder, sources)
        [cls.wheel] = cls.folder.glob('*.whl')
        run(sys.executable, '-m', 'venv', cls.folder / 'fresh')
        cls.python = cls.folder / 'fresh/bin/python'
        run(cls.python, '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-index',
            '--find-links', WHEELS, f'{cls.wheel}[yaml]')

    def test_the_wheel_holds_the_package_and_its_types(self):
        names = set(zipfile.ZipFile(self.wheel).namelist())
        self.assertLessEqual({'muster_client/__init__.py', 'muster_client/client.py', 'muster_client/py.typed'}, names)
        self.assertFalse([name for name in names if not name.startswith('muster_client')])

    def test_it_needs_nothing_else(self):
        said = json.loads(run(self.python, '-m', 'pip', 'list', '--format', 'json', '--disable-pip-version-check'))
        self.assertLessEqual({one['name'] for one in said},
                             {'muster-client', 'ruamel.yaml', 'ruamel.yaml.clib', 'ruamel-yaml', 'pip', 'setuptools'})

    def test_types_are_strict_in_it_and_seen_by_who_uses_it(self):
        mypy = [sys.executable, '-m', 'mypy', '--strict', '--no-incremental', '--cache-dir', os.devnull,
                '--python-executable', self.python]
        run(*mypy, '--python-version', '3.10', PACKAGE / 'src')  # the oldest that it is for
        uses = self.folder / 'uses.py'
        uses.write_text('import muster_client\n'
                        'reveal_type(muster_client.Client("").get("a").loss)\n'
                        'muster_client.Client("").wait("a")\n')
        said = subprocess.run([*mypy, uses], capture_output=True, text=True, timeout=300)
        self.assertIn('Revealed type is "float | None"', said.stdout.replace('builtins.', ''))
        self.assertIn('Missing named argument "timeout"', said.stdout)

    def test_it_is_used_on_a_cluster(self):
        said = subprocess.run([self.python, HERE / 'package_uses.py'], timeout=500, cwd=self.folder)
        self.assertEqual(said.returncode, 0)


if __name__ == '__main__':
    main()
