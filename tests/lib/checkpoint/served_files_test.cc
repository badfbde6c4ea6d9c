#include "lib/checkpoint/served_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <thread>
#include <utility>

#include "tests/lib/checkpoint/support.h"
#include "tests/support/memory_files.h"

namespace muster {
namespace {

using testing::HasSubstr;

class ServedFilesTest : public testing::Test {
 protected:
  ServedFilesTest() {
    std::pair<Descriptor, Descriptor> ends = *NewFileSocket();
    server_ = std::move(ends.first);
    served_ = ServedFiles(std::move(ends.second), "job job-1");
    EXPECT_TRUE(files_.MakeFolder().ok());
  }
  ~ServedFilesTest() override { End(); }

  void Serve() {
    thread_ = std::thread([this] { ServeFiles(files_, server_); });
  }
  // What is open keeps the socket open.
  void End() {
    served_.reset();
    if (thread_.joinable()) thread_.join();
  }
  void Put(const std::string& file, std::string bytes) {
    files_.content[file] = std::make_shared<const std::string>(std::move(bytes));
  }

  MemoryFiles files_;
  Descriptor server_;
  std::unique_ptr<CheckpointFiles> served_;
  std::thread thread_;
};

TEST_F(ServedFilesTest, ACheckpointIsWhatWasSaved) {
  const Layout layout = UglyLayout();
  const State state = MakeState(layout, 3);
  const auto manifest = Save(files_, layout, state, 1, 40);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  Serve();
  const auto loaded = LoadWhole(*served_, *manifest, layout);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(*loaded == state);
}

TEST_F(ServedFilesTest, APieceIsReadWhereverItLiesAndHoweverLongItIs) {
  std::string bytes(2 * kMostServedBytes + 3, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(Mix64(1, i));
  Put("folder/long", bytes);
  Put("empty", "");
  Serve();
  {
    const auto file = served_->Open("folder/long");
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->size(), bytes.size());
    const auto empty = served_->Open("empty");
    ASSERT_TRUE(empty.ok()) << empty.status();
    EXPECT_EQ((*empty)->size(), 0u);
    EXPECT_TRUE((*empty)->ReadAt(0, nullptr, 0).ok());
    for (const auto& [offset, count] : {std::pair<size_t, size_t>{0, bytes.size()},
                                        {1, 1},
                                        {bytes.size(), 0},
                                        {kMostServedBytes - 1, kMostServedBytes + 1},
                                        {bytes.size() - 1, 1}}) {
      std::string read(count, 'x');
      ASSERT_TRUE((*file)->ReadAt(offset, read.data(), count).ok()) << offset;
      EXPECT_TRUE(read == bytes.substr(offset, count)) << offset;
    }
    char beyond[2];
    EXPECT_TRUE(absl::IsDataLoss((*file)->ReadAt(bytes.size() - 1, beyond, 2)));
    EXPECT_TRUE(absl::IsDataLoss((*file)->ReadAt(bytes.size() + 1, beyond, 0)));
  }
  End();
}

TEST_F(ServedFilesTest, ErrorsAreThoseOfWhoeverHasTheFiles) {
  Put("file", "bytes");
  Serve();
  const absl::Status missing = served_->Open("other").status();
  EXPECT_EQ(missing, absl::NotFoundError("'memory:other' is not there"));
  for (const std::string& unsafe :
       {std::string("../file"), std::string("/etc/passwd"), std::string(), std::string(1025, 'a')})
    EXPECT_EQ(served_->Open(unsafe).status().code(), absl::StatusCode::kInvalidArgument) << unsafe;
  EXPECT_TRUE(served_->Open("file").ok()) << "it goes on after an error";
  EXPECT_EQ(served_->PathOf("file"), "job job-1, file");
  EXPECT_EQ(served_->PathOf(""), "job job-1");
}

TEST_F(ServedFilesTest, AFileThatIsAnotherOneNowIsNotMixedWithWhatWasRead) {
  Put("file", "bytes");
  Put("other", "");
  Serve();
  {
    const auto file = served_->Open("file");
    ASSERT_TRUE(file.ok()) << file.status();
    Put("file", "of another length");
    ASSERT_TRUE(served_->Open("other").ok()) << "the first is not held open for this one";
    char byte = 0;
    const absl::Status changed = (*file)->ReadAt(0, &byte, 1);
    EXPECT_EQ(changed.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(changed.message()), HasSubstr("changed while it was read"));
  }
  End();
}

TEST_F(ServedFilesTest, WhoeverServedMayBeGone) {
  Put("file", "bytes");
  server_.Close();
  const absl::Status gone = served_->Open("file").status();
  EXPECT_EQ(gone,
            absl::UnavailableError("job job-1, file: the process that gives it out has gone"));
}

TEST_F(ServedFilesTest, WhatIsNoRequestEndsIt) {
  for (const std::string& said : {std::string(16, '\xff'), std::string("short"),
                                  // A name of two bytes, of which one comes.
                                  std::string("\0\0\0\0\0\0\0\0\1\0\0\0\2\0\0\0a", 17)}) {
    std::pair<Descriptor, Descriptor> ends = *NewFileSocket();
    std::thread serves([&] { ServeFiles(files_, ends.first); });
    EXPECT_EQ(send(ends.second.get(), said.data(), said.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(said.size()));
    shutdown(ends.second.get(), SHUT_WR);
    serves.join();
  }
}

TEST_F(ServedFilesTest, WhatIsNoAnswerIsAnError) {
  const std::string answer(16, '\x7f');
  ASSERT_EQ(send(server_.get(), answer.data(), answer.size(), MSG_NOSIGNAL), 16);
  EXPECT_EQ(served_->Open("file").status().code(), absl::StatusCode::kInternal);
}

TEST_F(ServedFilesTest, TheyAreOnlyRead) {
  EXPECT_FALSE(served_->Remove("file").ok());
  EXPECT_FALSE(served_->Replace("file", "").ok());
  EXPECT_FALSE(served_->MakeFolder().ok());
}

}  // namespace
}  // namespace muster
