#!/usr/bin/env python3
"""Each rule of layering.py finds what is planted against it, and says nothing about a clean tree."""

import os
import tempfile
import unittest

import layering

LIVES = '// A part. Lives as long as a step.\n#pragma once\n'
CLEAN = {
    'lib/base/ids.h': '#include <cstdint>\n',
    'lib/base/mailbox.h': '#include <mutex>\n',
    'lib/base/mutex.h': '#include <mutex>\nstd::mutex mutex_;\n',
    'lib/domain/view.h': '#include "lib/base/ids.h"\n',
    'lib/owner/state/owner.h': LIVES + '#include <map>\n#include "lib/domain/view.h"\n',
    'lib/member/state/member.h': LIVES + '#include "lib/owner/state/owner.h"\n',
    'lib/member/state/part.h':
        LIVES + 'using Action = int;\nstruct Known {\n  const char* name = nullptr;\n};\nclass Part {\n public:\n'
        '  const Known& known() const { return known_; }\n  Known* Find(int a) {\n    const Known& same = known_;\n'
        '    return const_cast<Known*>(&same);\n  }\n  void Act(const Known& known,\n           std::vector<Action>& out);\n\n'
        ' private:\n  Known known_;\n  std::shared_ptr<const Known> shared_;\n  std::unique_ptr<Known const> made_{};\n'
        '  KnownPtr same_;\n  std::shared_ptr<std::string> text_;\n};\nusing KnownPtr = std::shared_ptr<const Known>;\n'
        'void Each(const std::function<void(Known&)>& call);\n',
    'lib/member/state/part.cc':
        '#include "lib/member/state/part.h"\nvoid Each(const std::function<void(Known&)>& call) {\n  Known here;\n'
        '  Known* const first = &here;\n  const std::function<void()> later = [&] { call(*first); };\n  later();\n}\n',
    'lib/member/state/told.h': '// What is told, of a moment. Plain\n// values.\n#pragma once\n',
    'lib/wire/codec.h': '#include "muster/v1/exchange.pb.h"\n#include "lib/domain/view.h"\n',
    'lib/wire/tensor_copy.cc': 'void Copy() { memcpy(a, b, n); }\n',
    'lib/wire/header.cc': 'void F() { memcpy(a, b, 4); }  // lint: not tensor bytes (four bytes of a header)\n',
    'lib/wire/above.cc': 'void F() {\n  // lint: not tensor bytes (a header)\n  memcpy(a, b, 4);\n}\n',
    'lib/transport/transport.h': '#include "lib/domain/view.h"\n',
    'lib/transport/grpc/session.h': '#include <grpcpp/grpcpp.h>\n#include "lib/transport/transport.h"\n',
    'lib/log/log.cc': '#include <spdlog/spdlog.h>\n',
    'coordinator/state/step.h': LIVES + '#include "lib/owner/state/owner.h"\n',
    'coordinator/runtime/loop.h': '#include <thread>\n#include "coordinator/state/step.h"\n#include "lib/base/mailbox.h"\n',
    'coordinator/service/service.h': '#include "coordinator/runtime/loop.h"\n',
    'worker/runtime/loop.h': '#include <thread>\n#include "lib/base/mailbox.h"\n',
    'worker/torch/model.h': '#include <torch/torch.h>\n',
    'worker/tasks/lm.h': '#include "worker/torch/model.h"\nvoid F() { b = std::move(a); c.assign(n, false); }\n',
    'worker/main.cc': '#include <CLI/CLI.hpp>\n#include "worker/tasks/lm.h"\n#include "worker/runtime/loop.h"\n',
    'agent/agent.h': '#include "lib/base/mailbox.h"\n',
    'cli/main.cc': '#include "agent/agent.h"\n#include <nlohmann/json.hpp>\n',
    'tests/worker/step_test.cc': '#include <gtest/gtest.h>\n#include <torch/torch.h>\n#include "worker/runtime/loop.h"\n',
    'tests/lib/wire/codec_test.cc': '// never sleep(1)\n#include <grpcpp/grpcpp.h>\n#include "lib/wire/codec.h"\n',
    'bench/add.cc': '#include <benchmark/benchmark.h>\n#include "lib/wire/codec.h"\n',
    'examples/own/net.h': '#include "muster/task.h"\n',
    'examples/own/net.cc': '#include "net.h"\n#include <torch/torch.h>\n',
    'cmake/dependencies.cmake': 'find_package(absl REQUIRED)\n',
    'docs/guide.md': 'See framework/root/ and ./work/ of any folder.\n',
}

SLEEP = 'std::this_thread::sleep' + '_for(x);'
PLACE = '/' + 'work/main'
LONG = 'int F(int a) {\n' + '  a += 1;\n' * layering.LONGEST_FUNCTION + '  return a;\n}\n'

# (file, its text, the rule that must speak)
PLANTED = [
    ('lib/domain/a.h', '#include "lib/wire/codec.h"\n', 'levels'),
    ('lib/domain/a.h', '#include "lib/log/log.h"\n', 'levels'),
    ('lib/base/a.cc', '#include "lib/domain/view.h"\n', 'levels'),
    ('lib/wire/a.h', '#include "lib/transport/transport.h"\n', 'levels'),
    ('lib/owner/runtime/a.h', '#include "coordinator/state/step.h"\n', 'programs'),
    ('coordinator/runtime/a.h', '#include "coordinator/service/service.h"\n', 'levels'),
    ('worker/runtime/a.h', '#include "worker/tasks/lm.h"\n', 'levels'),
    ('worker/runtime/a.h', '#include "worker/torch/model.h"\n', 'levels'),
    ('worker/torch/a.h', '#include "worker/tasks/lm.h"\n', 'levels'),
    ('server/main.cc', '#include "worker/runtime/loop.h"\n', 'programs'),
    ('agent/state/a.h', '#include "coordinator/state/step.h"\n', 'programs'),
    ('cli/train.cc', '#include "agent/agent.h"\n', 'programs'),
    ('agent/a.cc', '#include "cli/train.h"\n', 'programs'),
    ('lib/wire/a.cc', '#include "tests/support/x.h"\n', 'levels'),
    ('coordinator/state/a.h', '#include "lib/transport/transport.h"\n', 'state'),
    ('coordinator/state/a.h', '#include "lib/optim/sgd.h"\n', 'state'),
    ('coordinator/state/a.h', '#include <thread>\n', 'state'),
    ('coordinator/state/a.h', '#include <fstream>\n', 'state'),
    ('coordinator/state/a.h', '#include <sys/socket.h>\n', 'state'),
    ('coordinator/state/a.h', '#include "lib/base/mailbox.h"\n', 'state'),
    ('lib/owner/state/a.h', '#include "muster/v1/exchange.pb.h"\n', 'state'),
    ('lib/owner/state/a.cc', '#include <chrono>\nauto t = std::chrono::steady_clock::now();\n', 'state'),
    ('lib/owner/state/a.cc', 'std::random_device device;\n', 'state'),
    ('lib/member/state/a.h', 'class A {\n  Part* part_ = nullptr;\n};\n', 'state-parts'),
    ('lib/member/state/a.h', 'class A {\n  const Known& known_;\n};\n', 'state-parts'),
    ('lib/member/state/a.h', 'class A {\n  std::vector<Action>* out_ = nullptr;  // of the call that runs\n};\n', 'state-parts'),
    ('lib/member/state/a.h', 'class A {\n  std::map<int,\n           Part*> parts_;\n};\n', 'state-parts'),
    ('lib/member/state/a.h', 'class A {\n  std::reference_wrapper<Part> part_;\n};\n', 'state-parts'),
    ('lib/member/state/a.h', 'struct B {};\nclass A {\n  B* const b_;\n};\n', 'state-parts'),
    ('lib/member/state/a.h', 'class A {\n  Part* parts_[2] = {};\n};\n', 'state-parts'),
    ('lib/member/state/a.h', 'class A {\n public:\n  A(int n) : n_{n} {}\n  Part* part_;\n};\n', 'state-parts'),
    ('lib/member/state/a.h', 'class A {\n  std::shared_ptr<Part> part_;\n};\n', 'state-parts'),
    ('lib/member/state/a.h', 'class A {\n  std::weak_ptr<Part> part_;\n};\n', 'state-parts'),
    ('lib/member/state/a.h', 'class A {\n  std::map<int, std::unique_ptr<Part>> parts_;\n};\n', 'state-parts'),
    ('lib/member/state/a.h', 'using PartPtr = std::shared_ptr<Part>;\nclass A {\n  PartPtr part_;\n};\n', 'state-parts'),
    ('lib/member/state/a.h', 'class A {\n  std::function<void(int)> call_;\n};\n', 'state-parts'),
    ('lib/member/state/a.h', 'using Call = std::function<void()>;\nstruct A {\n  std::vector<Call> calls{};\n};\n', 'state-parts'),
    ('lib/member/state/a.cc', 'namespace {\nclass A {\n  explicit A(Part& part) : part_(part) {}\n  Part& part_;\n};\n}\n',
     'state-parts'),
    ('lib/member/state/a.cc', 'void F() {\n  struct A {\n    std::shared_ptr<Part> part;\n  };\n}\n', 'state-parts'),
    ('lib/member/state/a.cc', 'class A {\n  std::function<void()> call_;\n};\n', 'state-parts'),
    ('lib/member/state/a.h', '// The part of a member that says nothing of it.\n#pragma once\nclass A {};\n', 'state-life'),
    ('agent/state/a.h', '#pragma once\n// Lives as long as its agent.\nclass A {};\n', 'state-life'),
    ('lib/task/a.h', '#include <grpcpp/grpcpp.h>\n', 'library-home'),
    ('lib/checkpoint/a.h', '#include "muster/v1/checkpoint.pb.h"\n', 'library-home'),
    ('coordinator/runtime/a.h', '#include <rocksdb/db.h>\n', 'library-home'),
    ('lib/member/a.h', '#include <prometheus/counter.h>\n', 'library-home'),
    ('worker/runtime/a.h', '#include <ATen/ATen.h>\n', 'library-home'),
    ('tests/lib/wire/a.cc', '#include <torch/torch.h>\n', 'library-home'),
    ('lib/member/a.h', '#include <boost/asio.hpp>\n', 'library-home'),
    ('lib/config/a.h', '#include <spdlog/spdlog.h>\n', 'library-home'),
    ('worker/runtime/a.h', '#include <yaml-cpp/yaml.h>\n', 'library-home'),
    ('lib/domain/a.h', '#include <nlohmann/json.hpp>\n', 'library-home'),
    ('worker/runtime/a.h', '#include <CLI/CLI.hpp>\n', 'library-home'),
    ('lib/base/a.h', '#include <gtest/gtest.h>\n', 'library-home'),
    ('lib/base/a.h', '#include "ids.h"\n', 'include-from-root'),
    ('lib/novel/a.h', '#include <map>\n', 'room'),
    ('worker/runtime/a.cc', 'void F() { memcpy(a, b, n); }\n', 'tensor-bytes'),
    ('lib/transport/a.cc', 'void F() { std::copy(a, b, c); }\n', 'tensor-bytes'),
    ('lib/transport/a.cc', 'void F() { memcpy(a, b, c); }  // lint: not tensor bytes ()\n', 'tensor-bytes'),
    ('worker/torch/a.cc', 'void F() { std::memcpy(a, b, n); }\n', 'tensor-bytes'),
    ('worker/torch/a.cc', 'void F() { tensor.copy_(other); }\n', 'tensor-bytes'),
    ('worker/tasks/a.cc', 'void F() { std::ranges::copy_n(a, n, b); }\n', 'tensor-bytes'),
    ('worker/tasks/a.cc', 'void F() { std::move(a.begin(), a.end(), b); }\n', 'tensor-bytes'),
    ('lib/member/runtime/a.cc', 'void F() { values.assign(other.begin(), other.end()); }\n', 'tensor-bytes'),
    ('lib/wire/a.cc', 'void F() { values.assign(other.data(), other.data() + n); }\n', 'tensor-bytes'),
    ('tests/lib/base/a_test.cc', f'void F() {{ {SLEEP} }}\n', 'sleep'),
    ('tests/integration/run.py', 'time.sleep' + '(1)\n', 'sleep'),
    ('lib/base/a.h', 'std::mutex mutex_;\n', 'bare-mutex'),
    ('tests/cli/a_test.cc', 'void F() { std::scoped_lock lock(a); }\n', 'bare-mutex'),
    ('worker/runtime/a.h', 'absl::Mutex mutex_;\n', 'bare-mutex'),
    ('lib/base/a.h', 'class A {\n  Mutex mutex_;\n  int a_;  // guarded' + ' by mutex_\n  int b_ ABSL_GUARDED_BY(mutex_);\n};\n',
     'guarded-by'),
    ('lib/base/a.h', '// One end. Everything but `handler` is guarded' + " by the network's mutex; `handler` is\n// set before.\n",
     'guarded-by'),
    ('bench/a.h', 'class A {\n  mutable Mutex mutex_;\n  int a_;\n};\nclass B {\n  Mutex mutex_;\n  int a_ '
     'ABSL_GUARDED_BY(mutex_);\n};\n', 'guarded-by'),
    ('lib/base/CMakeLists.txt', '  find_package(absl)\n', 'find-package'),
    ('docs/guide.md', f'look at {PLACE}\n', 'machine-path'),
    ('lib/base/a.cc', LONG, 'long-function'),
    ('lib/base/a.cc', f'namespace x {{\nclass A {{\n  A() : b_{{1}} {{}}\n  {LONG}}};\n}}\n', 'long-function'),
]


def problems_of(files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), 'w', encoding='utf-8') as f:
                f.write(text)
        return layering.Tree(root).check()


class LayeringTest(unittest.TestCase):

    def test_clean_tree_passes(self):
        self.assertEqual(problems_of(CLEAN), [])

    def test_planted_violations_are_found(self):
        for path, text, rule in PLANTED:
            with self.subTest(path=path, text=text[:60]):
                above = LIVES if '/state/' in path and path.endswith('.h') and '#pragma once' not in text else ''
                found = problems_of({**CLEAN, path: above + text})
                self.assertTrue(any(p.startswith(f'{path}:') and f': {rule}: ' in p for p in found), found)
                self.assertTrue(all(p.startswith(f'{path}:') for p in found), found)

    def test_line_is_named(self):
        found = problems_of({'lib/base/a.h': '\n\n#include "lib/domain/view.h"\n', 'lib/domain/view.h': ''})
        self.assertEqual(len(found), 1)
        self.assertTrue(found[0].startswith('lib/base/a.h:3: levels: '), found)

    def test_comments_and_literals_are_no_code(self):
        text = '/* memcpy(a, b, c) */\nconst char* kText = "memcpy(";\nconst char* kRaw = R"(memcpy(a))";\nint n = 1\'000;\n'
        self.assertEqual(problems_of({'worker/runtime/a.cc': text}), [])

    def test_a_mutex_outside_classes_may_guard_what_has_no_name(self):
        text = ('namespace {\nMutex in_use;\nclass A {\n public:\n  int F() {\n    MutexLock lock(mutex_);\n    return a_;\n'
                '  }\n\n private:\n  Mutex mutex_;\n  int a_ ABSL_GUARDED_BY(mutex_) = 0;\n};\n}\n')
        self.assertEqual(problems_of({'lib/base/a.cc': text}), [])

    def test_functions_are_measured_whole(self):
        text = ('namespace a {\nconst int kTable[] = {\n1,\n2};\nclass B {\n  int C(int d) const {\n'
                '    if (d) {\n    }\n    auto e = [&] { return 1; };\n    return e();\n  }\n};\n}\n')
        self.assertEqual(layering.functions(text), [('C', 6, 11)])


if __name__ == '__main__':
    unittest.main()
