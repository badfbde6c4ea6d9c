#include "worker/plugins/library_extent.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"

namespace muster::worker {
namespace {

// A file has fewer bytes.
uint64_t EndOf(uint64_t begin, uint64_t bytes) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  return bytes > kMost - begin ? kMost : begin + bytes;
}

// What is in both: `piece`, which stands at `at`, and the bytes from `begin` to `end`.
absl::Span<const std::byte> Within(absl::Span<const std::byte> piece, uint64_t at, uint64_t begin,
                                   uint64_t end) {
  const uint64_t first = std::max(at, begin), last = std::min(at + piece.size(), end);
  if (first >= last) return {};
  return piece.subspan(first - at, last - first);
}

void Append(absl::Span<const std::byte> bytes, std::string& to) {
  to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Of a file whose program headers are as dlopen expects them.
std::optional<Elf64_Ehdr> HeaderIn(const std::string& bytes) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phoff < sizeof header)
    return std::nullopt;
  return header;
}

uint64_t EndOfPrograms(const Elf64_Ehdr& header) {
  return EndOf(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr));
}

}  // namespace

void LibraryExtent::Add(absl::Span<const std::byte> piece) {
  Append(Within(piece, size_, 0, sizeof(Elf64_Ehdr)), header_);
  if (const std::optional<Elf64_Ehdr> header = HeaderIn(header_))
    Append(Within(piece, size_, header->e_phoff, EndOfPrograms(*header)), programs_);
  size_ += piece.size();
}

absl::Status LibraryExtent::Check() const {
  const std::optional<Elf64_Ehdr> header = HeaderIn(header_);
  if (!header) return absl::OkStatus();
  uint64_t end = EndOfPrograms(*header);
  for (size_t at = 0; at + sizeof(Elf64_Phdr) <= programs_.size(); at += sizeof(Elf64_Phdr)) {
    Elf64_Phdr program;
    std::memcpy(&program, &programs_[at], sizeof program);
    if (program.p_type == PT_LOAD && program.p_filesz > 0)
      end = std::max(end, EndOf(program.p_offset, program.p_filesz));
  }
  // Nobody loads these, but a file without them was not copied to its end either.
  if (header->e_shoff != 0)
    end = std::max(end, EndOf(header->e_shoff, uint64_t{header->e_shnum} * header->e_shentsize));
  if (end <= size_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "it is cut off: it has ", size_, " bytes, and tells itself of ", end, "; copy it again"));
}

}  // namespace muster::worker
