// A part of each test program: what a test writes into ::testing::TempDir() goes when the program
// ends. A program that is killed leaves its folder to the one that started it, if that is a test
// too.

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

namespace muster {
namespace {

// Lives as long as the program.
class ScratchFolder {
 public:
  ScratchFolder() {
    const char* const above = getenv("TEST_TMPDIR");
    path_ =
        std::string(above != nullptr && *above != '\0' ? above : "/tmp") + "/muster-test-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) {
      std::perror(path_.c_str());
      std::exit(1);
    }
    setenv("TEST_TMPDIR", path_.c_str(), 1);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    if (getpid() != maker_) return;  // a child, which ends before its parent has looked
    std::error_code not_all;
    std::filesystem::remove_all(path_, not_all);
  }

 private:
  const pid_t maker_ = getpid();
  std::string path_;
};

const ScratchFolder scratch_folder;

}  // namespace
}  // namespace muster
