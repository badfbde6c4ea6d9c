#include "worker/tasks/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace muster::worker {
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
  EXPECT_EQ(*one, expected);
  EXPECT_EQ(*two, expected);
}

TEST_F(Corpus, SuffixesChooseInDirectoriesButNotAmongNamedFiles) {
  const std::string named = Write("notes.txt", "notes");
  Write("src/a.h", "ah");
  Write("src/a.cc", "acc");
  Write("src/a.o", "ao");
  EXPECT_EQ(*ReadCorpus({.paths = {named, (root_ / "src").string()}, .suffixes = {".h", ".cc"}}),
            std::string("notes\0acc\0ah", 12));
}

TEST_F(Corpus, TakesTheEmptySuffixForNamesWithoutADot) {
  Write("src/a.h", "ah");
  Write("src/a.o", "ao");
  Write("src/vector", "vector");
  EXPECT_EQ(*ReadCorpus({.paths = {(root_ / "src").string()}, .suffixes = {".h", ""}}),
            std::string("ah\0vector", 9));
}

TEST_F(Corpus, DoesNotFollowDirectoryLinks) {
  Write("src/a.h", "a");
  fs::create_directory_symlink(root_ / "src", root_ / "src" / "loop");
  EXPECT_EQ(*ReadCorpus({.paths = {(root_ / "src").string()}}), "a");
}

TEST_F(Corpus, SkipsWhatIsNoFile) {
  Write("src/b.h", "b");
  ASSERT_EQ(mkfifo((root_ / "src" / "a.h").c_str(), 0600), 0);
  fs::create_symlink(root_ / "nowhere", root_ / "src" / "dangling.h");
  EXPECT_EQ(*ReadCorpus({.paths = {(root_ / "src").string()}}), "b");
}

TEST_F(Corpus, StopsAtMaxBytes) {
  const std::vector<std::string> paths = {Write("a", std::string(100000, 'a')), Write("b", "bbb")};
  EXPECT_EQ(*ReadCorpus({.paths = paths, .max_bytes = 3}), "aaa");
  EXPECT_EQ(ReadCorpus({.paths = paths, .max_bytes = 70000})->size(), 70000u);
  EXPECT_EQ(ReadCorpus({.paths = paths, .max_bytes = 100002})->substr(99999),
            std::string("a\0b", 3));
  EXPECT_EQ(ReadCorpus({.paths = paths, .max_bytes = 1 << 20})->size(), 100004u);
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
}  // namespace muster::worker
