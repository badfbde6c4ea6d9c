#include "muster/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "lib/data/names_in.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Corpus : public testing::Test {
 protected:
  Corpus() {
    std::string name = (fs::temp_directory_path() / "corpus_XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~Corpus() override { fs::remove_all(root_); }

  std::string Write(const std::string& name, const std::string& content) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary) << content;
    return (root_ / name).string();
  }

  fs::path root_;
};

TEST_F(Corpus, ReadsInByteWiseOrderWhateverTheOrderOfMaking) {
  const std::vector<std::string> names = {"b.h", "a/z.h", "a.h", "B.h", "a/b/c.h", "\xc3\xa4.h"};
  for (const std::string& name : names) Write("one/" + name, name);
  for (auto it = names.rbegin(); it != names.rend(); ++it) Write("two/" + *it, *it);
  const auto one = ReadCorpus({.paths = {(root_ / "one").string()}});
  const auto two = ReadCorpus({.paths = {(root_ / "two").string()}});
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_TRUE(two.ok()) << two.status();
  std::string expected;
  for (const char* name : {"B.h", "a/b/c.h", "a/z.h", "a.h", "b.h", "\xc3\xa4.h"})
    expected += (expected.empty() ? "" : std::string(1, '\0')) + name;
  EXPECT_EQ(one->bytes, expected);
  EXPECT_EQ(two->bytes, expected);
}

TEST_F(Corpus, SuffixesChooseInDirectoriesButNotAmongNamedFiles) {
  const std::string named = Write("notes.txt", "notes");
  Write("src/a.h", "ah");
  Write("src/a.cc", "acc");
  Write("src/a.o", "ao");
  EXPECT_EQ(
      ReadCorpus({.paths = {named, (root_ / "src").string()}, .suffixes = {".h", ".cc"}})->bytes,
      std::string("notes\0acc\0ah", 12));
}

TEST_F(Corpus, TakesTheEmptySuffixForNamesWithoutADot) {
  Write("src/a.h", "ah");
  Write("src/a.o", "ao");
  Write("src/vector", "vector");
  EXPECT_EQ(ReadCorpus({.paths = {(root_ / "src").string()}, .suffixes = {".h", ""}})->bytes,
            std::string("ah\0vector", 9));
}

TEST_F(Corpus, DoesNotFollowDirectoryLinks) {
  Write("src/a.h", "a");
  fs::create_directory_symlink(root_ / "src", root_ / "src" / "loop");
  EXPECT_EQ(ReadCorpus({.paths = {(root_ / "src").string()}})->bytes, "a");
}

TEST_F(Corpus, SkipsWhatIsNoFile) {
  Write("src/b.h", "b");
  ASSERT_EQ(mkfifo((root_ / "src" / "a.h").c_str(), 0600), 0);
  EXPECT_EQ(ReadCorpus({.paths = {(root_ / "src").string()}})->bytes, "b");
}

TEST_F(Corpus, FoldersOfRunsAreNoData) {
  Write("src/a.h", "a");
  Write("src/runs/one/muster-folder", "");
  Write("src/runs/one/logs/coordinator.log", "a line");
  Write("src/runs/notes.h", "n");
  EXPECT_EQ(ReadCorpus({.paths = {(root_ / "src").string()}})->bytes, std::string("a\0n", 3));
  const std::string run = (root_ / "src/runs/one").string();
  const absl::Status status = ReadCorpus({.paths = {run}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(run + " is the folder of a run"));
}

// The workers may be of the user who keeps the first admin's token there.
TEST_F(Corpus, NothingBelowAFolderOfOursIsData) {
  Write("run/muster-folder", "");
  const std::string token = Write("run/identity/admin.token", "muster-admin-1");
  Write("run/checkpoints/of-another/segment", "s");
  const std::string settings = Write("home/.config/muster/token", "muster-admin-2");
  Write("src/a.h", "a");
  fs::create_symlink(token, root_ / "src" / "token.h");
  fs::create_symlink(settings, root_ / "src" / "settings.h");
  fs::create_symlink(root_ / "run/identity", root_ / "identity");
  fs::create_symlink(token, root_ / "link");
  EXPECT_EQ(ReadCorpus({.paths = {(root_ / "src").string()}})->bytes, "a");
  Write("home/.config/other", "o");
  EXPECT_EQ(ReadCorpus({.paths = {(root_ / "home").string()}})->bytes, "o");
  for (const char* name : {"run/identity/admin.token", "run/identity", "run/checkpoints/of-another",
                           "link", "identity/", "identity/admin.token", "src/../run/identity",
                           "home/.config/muster", "home/.config/muster/token"}) {
    SCOPED_TRACE(name);
    const auto corpus =
        ReadCorpus({.paths = {(root_ / name).string()}, .unreadable = Unreadable::kSkip});
    ASSERT_EQ(corpus.status().code(), absl::StatusCode::kInvalidArgument) << "it was read";
    EXPECT_THAT(std::string(corpus.status().message()),
                HasSubstr("the folder of a run or a cluster"));
  }
}

TEST_F(Corpus, WhatCannotBeReadIsAnErrorThatNamesTheFirstAndCounts) {
  Write("src/b.h", "b");
  fs::create_symlink(root_ / "nowhere", root_ / "src" / "dangling.h");
  fs::create_symlink("loop.h", root_ / "src" / "loop.h");
  fs::create_symlink(root_ / "nowhere", root_ / "src" / "other.txt");
  DataSpec data = {.paths = {(root_ / "src").string()}, .suffixes = {".h"}};
  const absl::Status status = ReadCorpus(data).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr((root_ / "src/dangling.h").string() + " cannot be read (the first of 2)"));
  data.unreadable = Unreadable::kSkip;
  const auto corpus = ReadCorpus(data);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(corpus->bytes, "b");
  EXPECT_EQ(corpus->left_out, "2 files or directories that cannot be read, the first is " +
                                  (root_ / "src/dangling.h").string());
}

// Root reads everything, so the test goes on as somebody else for a moment.
TEST_F(Corpus, LockedFilesAndDirectoriesCannotBeRead) {
  const std::string locked = Write("src/locked.h", "l");
  Write("src/closed/a.h", "a");
  Write("src/open.h", "o");
  fs::permissions(root_, fs::perms(0755));
  for (const char* name : {"src/locked.h", "src/closed"})
    fs::permissions(root_ / name, fs::perms::none);
  const uid_t ours = geteuid();
  ASSERT_EQ(seteuid(ours == 0 ? 65534 : ours), 0);
  const absl::Status walked = ReadCorpus({.paths = {(root_ / "src").string()}}).status();
  const absl::Status named = ReadCorpus({.paths = {locked}}).status();
  ASSERT_EQ(seteuid(ours), 0);
  fs::permissions(root_ / "src/closed", fs::perms(0755));
  EXPECT_EQ(walked.code(), absl::StatusCode::kDataLoss) << walked;
  EXPECT_THAT(std::string(walked.message()),
              HasSubstr((root_ / "src/closed").string() + " cannot be read (the first of 2)"));
  EXPECT_EQ(named.code(), absl::StatusCode::kInvalidArgument) << named;
  EXPECT_THAT(std::string(named.message()), HasSubstr(locked + " cannot be read"));
}

// It can be opened, and fails when it is read.
constexpr char kFailsWhenRead[] = "/proc/self/mem";

TEST_F(Corpus, AFileThatFailsWhileItIsReadIsNamedOrLeftOutWhole) {
  Write("src/a.h", "a");
  fs::create_symlink(kFailsWhenRead, root_ / "src" / "b.h");
  Write("src/c.h", "c");
  DataSpec data = {.paths = {(root_ / "src").string()}};
  const absl::Status status = ReadCorpus(data).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr((root_ / "src/b.h").string() + " cannot be read: Input/output error"));
  data.unreadable = Unreadable::kSkip;
  const auto corpus = ReadCorpus(data);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(corpus->bytes, std::string("a\0c", 3));
  EXPECT_THAT(corpus->left_out, HasSubstr((root_ / "src/b.h").string()));
  data = {.paths = {(root_ / "src/b.h").string(), (root_ / "src/c.h").string()}};
  EXPECT_EQ(ReadCorpus(data).status().code(), absl::StatusCode::kInvalidArgument) << "it is named";
  data.unreadable = Unreadable::kSkip;
  EXPECT_EQ(ReadCorpus(data)->bytes, "c");
}

// For whoever holds the bytes: each file comes its turn, and one that is only cut counts, too.
TEST_F(Corpus, AFileThatChangesIsNoticed) {
  for (const char* name : {"src/a", "src/b", "src/c", "src/d", "src/e", "src/f"}) Write(name, name);
  const auto corpus = ReadCorpus({.paths = {(root_ / "src").string()}, .max_bytes = 28});
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  ASSERT_EQ(corpus->bytes, std::string("src/a\0src/b\0src/c\0src/d\0src/", 28));
  const auto in_some_turns = [&] {
    for (int turn = 0; turn < 5; ++turn)
      if (absl::Status status = corpus->check_files(); !status.ok()) return status;
    return absl::OkStatus();
  };
  EXPECT_TRUE(in_some_turns().ok());
  Write("src/f", "of which nothing was read");
  EXPECT_TRUE(in_some_turns().ok()) << in_some_turns();
  const std::string cut = Write("src/e", "src/ and other words");
  EXPECT_EQ(in_some_turns().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(std::string(in_some_turns().message()), cut + ": it has changed since the job began");
}

// A directory whose entries are read one by one, and which fails after some of them.
class FailingDirectory {
 public:
  FailingDirectory() = default;  // the end
  FailingDirectory(std::vector<fs::path> names, size_t fails_after)
      : names_(std::move(names)), fails_after_(fails_after) {}
  struct Entry {
    fs::path path() const { return path_; }
    fs::path path_;
  };
  const Entry* operator->() {
    entry_.path_ = names_[at_];
    return &entry_;
  }
  void increment(std::error_code& error) {
    if (++at_ == fails_after_) error = std::make_error_code(std::errc::io_error);
  }
  // As an iterator that failed is at its end.
  bool operator!=(const FailingDirectory&) const {
    return at_ < std::min(names_.size(), fails_after_);
  }

 private:
  std::vector<fs::path> names_;
  size_t fails_after_ = 0;
  size_t at_ = 0;
  Entry entry_;
};

TEST(NamesIn, OfADirectoryThatFailsHalfWayThereAreNone) {
  const std::vector<fs::path> all = {"src/b.h", "src/a.h", "src/c.h"};
  std::error_code error;
  EXPECT_THAT(NamesIn(FailingDirectory(all, 9), error), testing::ElementsAre("a.h", "b.h", "c.h"));
  EXPECT_FALSE(error);
  for (const size_t fails_after : {size_t{1}, size_t{2}}) {
    error.clear();
    EXPECT_THAT(NamesIn(FailingDirectory(all, fails_after), error), testing::IsEmpty());
    EXPECT_TRUE(error) << "so that it is said";
  }
}

// Files of sysfs say that they have a page, and hold less: as one that is cut while it is read.
TEST_F(Corpus, AFileThatEndsBeforeItsSizeIsNamed) {
  const fs::path shorter = "/sys/kernel/uevent_seqnum";
  std::error_code none;
  if (!fs::exists(shorter, none)) GTEST_SKIP() << "there is no sysfs here";
  fs::create_directory(root_ / "src");
  fs::create_symlink(shorter, root_ / "src" / "a.h");
  const absl::Status status = ReadCorpus({.paths = {(root_ / "src").string()}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("it became shorter while it was read"));
}

// Some of it has no end.
TEST_F(Corpus, WhatTheSystemMakesWhileItIsReadIsNoData) {
  fs::create_directory(root_ / "src");
  fs::create_symlink("/proc/self/status", root_ / "src" / "a.h");
  Write("src/b.h", "b");
  for (const std::string& path :
       {(root_ / "src").string(), std::string("/proc/sys/kernel/random")}) {
    const absl::Status status = ReadCorpus({.paths = {path}}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("data.paths: " + path));
    EXPECT_THAT(std::string(status.message()), HasSubstr("the system makes it while it is read"));
  }
  const auto skipped =
      ReadCorpus({.paths = {(root_ / "src").string()}, .unreadable = Unreadable::kSkip});
  ASSERT_TRUE(skipped.ok()) << skipped.status();
  EXPECT_EQ(skipped->bytes, "b");
  EXPECT_THAT(skipped->left_out, HasSubstr("a.h"));
  const absl::Status named = ReadCorpus({.paths = {"/proc/self/status"}}).status();
  EXPECT_EQ(named.code(), absl::StatusCode::kInvalidArgument) << named;
}

// Whoever opened the pipe would wait for a writer without end.
TEST_F(Corpus, PipesSocketsAndDevicesAreNeverOpened) {
  Write("src/b.h", "b");
  ASSERT_EQ(mkfifo((root_ / "src" / "pipe.h").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", root_ / "src" / "device.h");
  fs::create_symlink("pipe.h", root_ / "src" / "to-the-pipe.h");
  const std::string name = (root_ / "src" / "socket.h").string();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(name.size(), sizeof(address.sun_path));
  name.copy(address.sun_path, name.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(ReadCorpus({.paths = {(root_ / "src").string()}})->bytes, "b");
  close(fd);
  for (const char* no_file : {"src/pipe.h", "src/socket.h", "src/device.h"}) {
    const absl::Status status = ReadCorpus({.paths = {(root_ / no_file).string()}}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("is not a file or directory"));
  }
}

TEST_F(Corpus, StopsAtMaxBytes) {
  const std::vector<std::string> paths = {Write("a", std::string(100000, 'a')), Write("b", "bbb")};
  EXPECT_EQ(ReadCorpus({.paths = paths, .max_bytes = 3})->bytes, "aaa");
  EXPECT_EQ(ReadCorpus({.paths = paths, .max_bytes = 70000})->bytes.size(), 70000u);
  EXPECT_EQ(ReadCorpus({.paths = paths, .max_bytes = 100002})->bytes.substr(99999),
            std::string("a\0b", 3));
  EXPECT_EQ(ReadCorpus({.paths = paths, .max_bytes = 1 << 20})->bytes.size(), 100004u);
}

TEST_F(Corpus, MissingOrEmptyDataIsAnErrorThatNamesThePath) {
  const std::string missing = (root_ / "missing").string();
  const std::string empty = Write("empty", "");
  for (const std::string& path : {missing, empty, root_.string()}) {
    const absl::Status status = ReadCorpus({.paths = {path}, .suffixes = {".nothing"}}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }
}

TEST(ContentHash, IsSha256OfAllParts) {
  EXPECT_EQ(ContentHash({"ab", "", "c"}),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace muster
