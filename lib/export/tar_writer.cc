#include "lib/export/tar_writer.h"

#include "absl/strings/str_format.h"
#include "lib/base/bytes.h"
#include "lib/base/check.h"
#include "lib/base/status.h"

namespace muster {
namespace {

constexpr uint64_t kBlock = 512;
constexpr size_t kMostName = 100;
constexpr uint64_t kMostBytes = (uint64_t{1} << 33) - 1;  // eleven octal digits

std::string HeaderOf(const std::string& name, uint64_t bytes) {
  std::string header(kBlock, '\0');
  const auto put = [&](size_t at, absl::string_view text) {
    header.replace(at, text.size(), text.data(), text.size());
  };
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, absl::StrFormat("%011o", bytes));
  put(136, "00000000000");
  put(148, "        ");  // the checksum is that of a header with blanks in its place
  put(156, "0");
  put(257, absl::string_view("ustar\00000", 8));
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, absl::string_view(absl::StrFormat("%06o", sum)));
  put(154, absl::string_view("\0 ", 2));
  return header;
}

}  // namespace

uint64_t TarWriter::BytesOf(uint64_t content) {
  return kBlock + (content + kBlock - 1) / kBlock * kBlock;
}

absl::Status TarWriter::Write(absl::string_view bytes) {
  bytes_ += bytes.size();
  return to_.Append(muster::BytesOf(bytes));
}

absl::Status TarWriter::Add(const std::string& name, absl::string_view content) {
  MUSTER_CHECK(!name.empty() && name.size() <= kMostName && content.size() <= kMostBytes,
               "a file of a tar is too long");
  MUSTER_RETURN_IF_ERROR(Write(HeaderOf(name, content.size())));
  MUSTER_RETURN_IF_ERROR(Write(content));
  return Write(std::string((kBlock - content.size() % kBlock) % kBlock, '\0'));
}

absl::Status TarWriter::Finish() { return Write(std::string(2 * kBlock, '\0')); }

}  // namespace muster
