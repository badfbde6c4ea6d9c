// A file of HDF5, read by what muster-decoder reads it with. libhdf5 has errors with hostile files,
// for which it has a process of its own; so each file is read in one here, too, and what it makes
// of that process counts as found only where our own code, or memory that this code has taken, is
// the place of it.
#include <hdf5.h>
#include <sanitizer/common_interface_defs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "lib/base/descriptor.h"
#include "lib/data/decoder/hdf5_reader.h"
#include "tests/fuzz/data_files.h"

// Nobody looks at names, and whoever finds them takes a second; and what would be too much for the
// decoder's limit of memory is refused as it is there.
extern "C" const char* __asan_default_options() {  // NOLINT(bugprone-reserved-identifier): its own
  return "symbolize=0:allocator_may_return_null=1:max_allocation_size_mb=512";
}

namespace muster::fuzz {
namespace {

constexpr uint64_t kMostBytesOfRows = uint64_t{1} << 20;
constexpr size_t kMostArrays = 8, kMostSaid = size_t{1} << 20;
constexpr unsigned kSecondsForOne = 5;

// A name that all inputs have, one after the other: libhdf5 opens files by their names.
const std::string& PathOfFile() {
  static const std::string path =
      (std::filesystem::temp_directory_path() / absl::StrCat("muster-fuzz-", getpid(), ".h5"))
          .string();
  static const int removes = std::atexit([] { unlink(PathOfFile().c_str()); });
  static_cast<void>(removes);
  return path;
}

// ---- sound files

template <class T>
void Write(hid_t file, const char* name, hid_t stored, hid_t memory, std::vector<hsize_t> shape,
           const std::function<void(hid_t)>& how) {
  const hsize_t count = std::accumulate(shape.begin(), shape.end(), hsize_t{1}, std::multiplies{});
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), T{1});
  const hid_t made = H5Pcreate(H5P_DATASET_CREATE), links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_obj_track_times(made, false);
  H5Pset_create_intermediate_group(links, 1);
  how(made);
  const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
  const hid_t set = H5Dcreate2(file, name, stored, space, links, made, H5P_DEFAULT);
  Check(H5Dwrite(set, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0, "it is written");
  H5Dclose(set);
  H5Sclose(space);
  H5Pclose(links);
  H5Pclose(made);
}

std::string Make(Random& random) {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  const bool latest = Below(random, 3) == 0;
  H5Pset_libver_bounds(access, latest ? H5F_LIBVER_LATEST : H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST);
  const hid_t file = H5Fcreate(PathOfFile().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
  const hsize_t rows = 1 + Below(random, 9);
  const auto packing = Below(random, 4);
  const auto packed = [&](hid_t made) {
    const hsize_t chunk[] = {1 + Below(random, rows), 1 + Below(random, 3)};
    if (packing > 0) H5Pset_chunk(made, 2, chunk);
    if (packing == 1) H5Pset_shuffle(made);
    if (packing == 1 || packing == 2) H5Pset_deflate(made, 6);
    if (packing == 3) H5Pset_fletcher32(made);
  };
  const auto compact = [](hid_t made) { H5Pset_layout(made, H5D_COMPACT); };
  const auto plain = [](hid_t) {};
  Write<float>(file, "x", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {rows, 3}, packed);
  if (Below(random, 2) == 0)
    Write<int64_t>(file, "in/y", H5T_STD_I64BE, H5T_NATIVE_INT64, {rows}, plain);
  if (Below(random, 2) == 0)
    Write<double>(file, "in/z", H5T_IEEE_F64BE, H5T_NATIVE_DOUBLE, {rows, 1, 2}, compact);
  if (Below(random, 4) == 0)
    Write<uint32_t>(file, "unsigned", H5T_STD_U32LE, H5T_NATIVE_UINT32, {rows}, plain);
  if (Below(random, 4) == 0) H5Lcreate_soft("/x", file, "link", H5P_DEFAULT, H5P_DEFAULT);
  if (Below(random, 4) == 0)
    H5Lcreate_external("other.h5", "/x", file, "external", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
  H5Pclose(access);
  std::ifstream in(PathOfFile(), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// What it tells of itself stands all over such a file.
std::string Changed(const std::string& input, Random& random) {
  if (input.empty() || Below(random, 4) == 0) return ChangedNumber(input, random);
  std::string bytes = input;
  for (size_t left = 1 + Below(random, 3); left > 0; --left) {
    const size_t size = size_t{1} << Below(random, 4), at = Below(random, bytes.size());
    const std::string number =
        Below(random, 2) == 0 ? Little(UglyNumber(random)) : RandomBytes(random, 8);
    bytes.replace(at, std::min(size, bytes.size() - at), number, 0,
                  std::min(size, bytes.size() - at));
  }
  return bytes;
}

// ---- how one is read

// As many rows as have room, from the first on, and the last one.
void ReadSome(Hdf5Reader& reader, const std::string& path, const Hdf5Dataset& dataset) {
  uint64_t row_bytes = static_cast<uint64_t>(BytesOfElement(dataset.type));
  for (const uint64_t size : dataset.shape)
    if (__builtin_mul_overflow(row_bytes, size, &row_bytes)) return;
  if (row_bytes == 0 || row_bytes > kMostBytesOfRows || dataset.rows == 0) return;
  const uint64_t many = std::min(dataset.rows, kMostBytesOfRows / row_bytes);
  for (const auto& [first, rows] : {std::pair(uint64_t{0}, many), {dataset.rows - 1, 1}}) {
    const absl::StatusOr<std::string> read = reader.Rows(path, dataset.key, first, rows);
    if (read.ok() && read->size() != rows * row_bytes)
      dprintf(STDOUT_FILENO, "unsound of %zu bytes\n", read->size());
    dprintf(STDOUT_FILENO, "%s\n",
            read.ok() ? "read" : absl::StrCat("error ", read.status().message()).c_str());
  }
}

// Says what it comes to, a line each.
void ReadAll(const std::string& path) {
  Hdf5Reader reader;
  const auto datasets = reader.Datasets(path, {"x", "link", "external"});
  if (!datasets.ok()) {
    dprintf(STDOUT_FILENO, "error %s\n", std::string(datasets.status().message()).c_str());
    return;
  }
  for (size_t i = 0; i < std::min(datasets->size(), kMostArrays); ++i) {
    const Hdf5Dataset& dataset = (*datasets)[i];
    if (!dataset.why_not.empty())
      dprintf(STDOUT_FILENO, "error %s\n", dataset.why_not.c_str());
    else
      ReadSome(reader, path, dataset);
  }
}

[[noreturn]] void BeTheDecoder(const std::string& path, int said) {
  // What ends it is looked at by the one that waits for it, and is no finding of libFuzzer's.
  __sanitizer_set_death_callback(nullptr);
  for (const int sent : {SIGABRT, SIGALRM, SIGTERM, SIGINT}) signal(sent, SIG_DFL);
  alarm(kSecondsForOne);
  dup2(said, STDOUT_FILENO);
  dup2(said, STDERR_FILENO);
  ReadAll(path);
  _exit(0);
}

bool Starts(absl::string_view line, const char* with) { return absl::StartsWith(line, with); }

// Frames: "    #1 0x7f8a (/usr/lib/libhdf5_serial.so.103+0x1234)". Above those of libhdf5 may stand
// one of the system, and what the sanitizer has in its place.
bool IsOfTheLibrary(const std::vector<absl::string_view>& lines, size_t from) {
  constexpr size_t kMostAbove = 3;
  size_t frames = 0;
  for (size_t i = from; i < lines.size(); ++i) {
    const absl::string_view line = absl::StripLeadingAsciiWhitespace(lines[i]);
    if (!Starts(line, "#")) {
      if (frames > 0) return false;
      continue;
    }
    if (absl::StrContains(line, "libhdf5")) return true;
    if (++frames > kMostAbove) return false;
  }
  return false;
}

// Of a report: the place of the error, and whoever has taken the memory beside which it lies.
bool IsTheLibrarys(const std::vector<absl::string_view>& lines) {
  bool told = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool is_error = absl::StrContains(lines[i], "ERROR: AddressSanitizer");
    if (!is_error && !absl::StrContains(lines[i], "allocated by thread")) continue;
    if (!IsOfTheLibrary(lines, i + 1)) return false;
    told = true;
  }
  return told;
}

std::string ReadToTheEnd(int from) {
  std::string said;
  char some[4096];
  for (ssize_t got = 0; (got = read(from, some, sizeof(some))) > 0;)
    if (said.size() < kMostSaid) said.append(some, static_cast<size_t>(got));
  return said;
}

void Run(std::string_view input) {
  std::ofstream(PathOfFile(), std::ios::binary) << input;
  int ends[2] = {-1, -1};
  Check(pipe(ends) == 0, "there is a pipe");
  const Descriptor from(ends[0]);
  Descriptor into(ends[1]);
  const pid_t child = fork();
  Check(child >= 0, "there is a process");
  if (child == 0) BeTheDecoder(PathOfFile(), into.get());
  into.Close();
  const std::string said = ReadToTheEnd(from.get());
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const std::vector<absl::string_view> lines = absl::StrSplit(said, '\n');
  for (const absl::string_view line : lines) {
    Check(!Starts(line, "unsound"), said);
    if (line == "read") Reach("end", "read");
    if (Starts(line, "error ")) ReachError(line.substr(sizeof("error ") - 1));
  }
  if (status == 0) return;
  // Where it aborts, its stack is not told; nothing of ours does.
  const bool aborts = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) return Reach("end", "it takes too long");
  Check(aborts || IsTheLibrarys(lines), said);
  Reach("end", "an error of libhdf5's");
}

const Form kForm = {Make, Changed};

void ExpectAll() {
  H5open();  // once for all, which is most of the time for one
  Expect("end", {"read"});
  ExpectAtLeast("error", 12);
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_FUZZ_TARGET(muster::fuzz::kForm, muster::fuzz::ExpectAll, muster::fuzz::Run);
