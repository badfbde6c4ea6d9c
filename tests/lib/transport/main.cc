// The tests, or, started by one of them with --serve, the process that is killed.
#include <gtest/gtest.h>

#include <string>

#include "tests/lib/transport/serving_child.h"

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == muster::kServeFlag) return muster::ServeUntilKilled();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
