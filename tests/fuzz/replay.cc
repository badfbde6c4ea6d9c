// Runs a target without libFuzzer, so that any preset and compiler can build it: `fuzz_NAME
// FOLDER…` reads the sound inputs that the target makes itself, all files of the folders, and for
// some seconds of a processor changes of these, which nothing guides. It fails as libFuzzer does,
// and where the floor is not reached.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t kMostBytes = 8192;
constexpr double kSecondsOfChanges = 3;

using Input = std::vector<uint8_t>;

// In another process, which ends once it has written them.
bool WriteOwnSeeds(char* program, const std::string& folder) {
  const pid_t child = fork();
  if (child == 0) {
    std::string flag = "--seeds=" + folder;
    std::vector<char*> words = {program, flag.data(), nullptr};
    int count = 2;
    char** arguments = words.data();
    LLVMFuzzerInitialize(&count, &arguments);
    std::_Exit(1);  // it took no notice of the flag
  }
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

std::vector<Input> FilesOf(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  if (std::filesystem::is_directory(folder))
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Input> inputs;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

// An exact copy on the heap: a byte read behind its end is found.
void Run(const Input& input) {
  const Input copy(input.begin(), input.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

void RunChanges(const std::vector<Input>& inputs) {
  const double until = muster::fuzz::ProcessorSeconds() + kSecondsOfChanges;
  std::mt19937 random(1);
  size_t changes = 0;
  for (; muster::fuzz::ProcessorSeconds() < until; ++changes) {
    Input input = inputs[random() % inputs.size()];
    const size_t size = std::min(input.size(), kMostBytes);
    input.resize(kMostBytes);
    const auto seed = static_cast<unsigned>(random());
    input.resize(LLVMFuzzerCustomMutator(input.data(), size, kMostBytes, seed));
    Run(input);
  }
  std::fprintf(stderr, "%zu inputs and %zu changes of them were read\n", inputs.size(), changes);
}

}  // namespace

// What libFuzzer has for targets that do not change an input themselves: one byte is another, goes
// or comes.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size) {
  static std::mt19937 random(2);
  const size_t at = size == 0 ? 0 : random() % size;
  const auto byte = static_cast<uint8_t>(random());
  const auto kind = random() % 3;
  if (size > 0 && kind == 0) {
    data[at] = byte;
  } else if (size > 0 && (kind == 1 || size == max_size)) {
    std::copy(data + at + 1, data + size, data + at);
    return size - 1;
  } else {
    std::copy_backward(data + at, data + size, data + size + 1);
    data[at] = byte;
    return size + 1;
  }
  return size;
}

int main(int argc, char** argv) {
  std::string folder = (std::filesystem::temp_directory_path() / "muster-seeds-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr || !WriteOwnSeeds(argv[0], folder)) {
    std::fprintf(stderr, "the target writes no sound inputs into %s\n", folder.c_str());
    return 1;
  }
  std::vector<Input> inputs = FilesOf(folder);
  std::filesystem::remove_all(folder);
  for (int i = 1; i < argc; ++i) {
    const std::vector<Input> kept = FilesOf(argv[i]);
    inputs.insert(inputs.end(), kept.begin(), kept.end());
  }
  int count = 1;
  LLVMFuzzerInitialize(&count, &argv);
  Run({});
  for (const Input& input : inputs) Run(input);
  RunChanges(inputs);
  return 0;  // the floor is looked at behind this
}
