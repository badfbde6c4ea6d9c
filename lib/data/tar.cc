#include "lib/data/tar.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "lib/base/status.h"

namespace muster {
namespace {

constexpr uint64_t kBlock = 512;
constexpr size_t kShownName = 100;
constexpr uint64_t kMostExtraBytes = uint64_t{1} << 20;  // of a header that describes the next file
constexpr size_t kMostMembers = size_t{1} << 24;
constexpr uint64_t kPieceBytes = uint64_t{64} << 10;
// Of zeros behind the mark of the end: records of a tape have some megabytes at most.
constexpr uint64_t kMostBytesBehindEnd = uint64_t{16} << 20;

// Octal digits, or, with the first bit set, a number of base 256.
std::optional<uint64_t> Number(absl::string_view field) {
  uint64_t number = 0;
  if (!field.empty() && (static_cast<unsigned char>(field[0]) & 0x80) != 0) {
    for (size_t i = 1; i < field.size(); ++i) {
      if (number >> 55 != 0) return std::nullopt;
      number = number << 8 | static_cast<unsigned char>(field[i]);
    }
    return number;
  }
  for (const char c : field) {
    if (c == ' ' || c == '\0') {
      if (number != 0) break;
      continue;
    }
    if (c < '0' || c > '7' || number >> 60 != 0) return std::nullopt;
    number = number << 3 | static_cast<uint64_t>(c - '0');
  }
  return number;
}

absl::string_view UpToZero(absl::string_view field) { return field.substr(0, field.find('\0')); }

// Of such a file only the parts that are not zero stand here, behind a list of them.
absl::Status IsSparse(const ByteSource& tar, uint64_t at) {
  return BadAt(tar, at, "a sparse file stands here; make the archive without --sparse");
}

bool ChecksumFits(absl::string_view header) {
  uint64_t sum = 0;
  for (size_t i = 0; i < header.size(); ++i)
    sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(header[i]);
  const std::optional<uint64_t> said = Number(header.substr(148, 8));
  return said && *said == sum;
}

// What headers before one say of it, in place of its own fields.
struct Extra {
  std::string name;
  std::string link;
  std::optional<uint64_t> bytes;
};

// "20 path=a/b.jpg\n", so many bytes each.
absl::Status TakePax(const ByteSource& tar, uint64_t at, absl::string_view records, Extra& extra) {
  while (!records.empty()) {
    const size_t blank = records.find(' ');
    uint64_t length = 0;
    if (blank == absl::string_view::npos || !absl::SimpleAtoi(records.substr(0, blank), &length) ||
        length <= blank + 1 || length > records.size() || records[length - 1] != '\n')
      return BadAt(tar, at, "a header of pax is broken");
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(records.substr(blank + 1, length - blank - 2), absl::MaxSplits('=', 1));
    uint64_t number = 0;
    if (absl::StartsWith(pair.first, "GNU.sparse.")) return IsSparse(tar, at);
    if (pair.first == "path") extra.name = std::string(pair.second);
    if (pair.first == "linkpath") extra.link = std::string(pair.second);
    if (pair.first == "size") {
      if (!absl::SimpleAtoi(pair.second, &number)) return BadAt(tar, at, "a size of pax is broken");
      extra.bytes = number;
    }
    records.remove_prefix(length);
  }
  return absl::OkStatus();
}

// The files that stand before a hard link, by name; the last of a name is what it leads to. Most
// archives have no link, and so no need of it.
class FilesByName {
 public:
  // nullptr: there is none.
  const TarMember* Find(const std::vector<TarMember>& members, absl::string_view name) {
    for (; known_ < members.size(); ++known_) places_[members[known_].name] = known_;
    const auto found = places_.find(std::string(name));
    return found == places_.end() ? nullptr : &members[found->second];
  }

 private:
  size_t known_ = 0;
  std::unordered_map<std::string, size_t> places_;
};

struct MemberKind {
  uint64_t at = 0;  // of its header
  char kind = '0';
  std::string link;
};

// Folders are no members. Where something else than a file stands, a sample would be missing.
absl::Status TakeMember(const ByteSource& tar, const MemberKind& of, TarMember member,
                        FilesByName& by_name, std::vector<TarMember>& members) {
  const auto bad = [&](absl::string_view why) {
    return BadAt(tar, of.at, absl::StrCat("'", member.name.substr(0, kShownName), "' is ", why));
  };
  const std::string link = of.link.substr(0, kShownName);
  switch (of.kind) {
    case '1':
      if (member.bytes == 0) {  // else, as pax allows, they stand here once more
        const TarMember* const file = by_name.Find(members, of.link);
        if (file == nullptr)
          return bad(absl::StrCat("a hard link to '", link,
                                  "', and no such file stands before it; ",
                                  "make the archive with --hard-dereference"));
        member.at = file->at;
        member.bytes = file->bytes;
      }
      break;
    case '2':
      return bad(absl::StrCat("a symbolic link to '", link,
                              "', which is no file of this archive; make it with --dereference"));
    case '3':
    case '4':
    case '6': return bad("a device or a pipe, and no file; make the archive without it");
    case '0':
    case '7':
    case '\0': break;
    default: return absl::OkStatus();
  }
  members.push_back(std::move(member));
  return absl::OkStatus();
}

// Of what begins as no archive does.
absl::Status NoArchive(const ByteSource& tar, const std::string& why) {
  constexpr std::pair<absl::string_view, const char*> kPacked[] = {
      {"\x1f\x8b", "gzip"}, {"\x28\xb5\x2f\xfd", "zstd"}, {"\xfd\x37zXZ", "xz"}, {"BZh", "bzip2"}};
  MUSTER_ASSIGN_OR_RETURN(const std::string begin,
                          ReadString(tar, 0, std::min<uint64_t>(tar.size(), 8)));
  for (const auto& [first, program] : kPacked)
    if (absl::StartsWith(begin, first))
      return Bad(tar, absl::StrCat("it is compressed by ", program, ", and samples are read from ",
                                   "where they lie in a tar; unpack it (", program, " -d)"));
  return BadAt(tar, 0, why);
}

// Behind the mark of its end are zeros, to a round size. Of archives that were put behind one
// another only the first would be read. A file that goes on far behind them is no archive, and may
// be a sparse one without end.
absl::Status CheckEnd(const ByteSource& tar, uint64_t at) {
  const uint64_t end = at;
  while (at < tar.size()) {
    if (at - end >= kMostBytesBehindEnd)
      return BadAt(tar, end,
                   absl::StrCat("the mark of its end stands here, and ", tar.size() - end,
                                " bytes follow; at most ", kMostBytesBehindEnd,
                                " of zeros may; cut them off, or make the archive again"));
    MUSTER_ASSIGN_OR_RETURN(const std::string piece,
                            ReadString(tar, at, std::min(kPieceBytes, tar.size() - at)));
    const size_t other = piece.find_first_not_of('\0');
    if (other != std::string::npos)
      return BadAt(tar, at + other,
                   "something follows the mark of its end; give archives as files of their own, or "
                   "join them by tar --concatenate");
    at += piece.size();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TarMember>> ReadTar(const ByteSource& tar) {
  std::vector<TarMember> members;
  FilesByName by_name;
  Extra next;
  for (uint64_t at = 0; at < tar.size();) {
    if (tar.size() - at < kBlock)
      return at == 0 ? NoArchive(tar, "it is cut off") : BadAt(tar, at, "it is cut off");
    MUSTER_ASSIGN_OR_RETURN(const std::string header, ReadString(tar, at, kBlock));
    if (header.find_first_not_of('\0') == std::string::npos) {  // the mark of its end
      MUSTER_RETURN_IF_ERROR(CheckEnd(tar, at));
      return members;
    }
    if (!ChecksumFits(header)) {
      const char* const why = "no header of tar stands here";
      return at == 0 ? NoArchive(tar, why) : BadAt(tar, at, why);
    }
    const absl::string_view view = header;
    const std::optional<uint64_t> field = Number(view.substr(124, 12));
    const char kind = header[156];
    const uint64_t bytes = kind != 'x' && next.bytes ? *next.bytes : field.value_or(tar.size());
    if (kind == 'S') return IsSparse(tar, at);
    const uint64_t begin = at + kBlock;
    if (!field || bytes > tar.size() - begin)
      return BadAt(tar, at,
                   absl::StrCat("'", UpToZero(view.substr(0, 100)), "' would end behind the file"));
    if (kind == 'x' || kind == 'g' || kind == 'L' || kind == 'K') {
      if (bytes > kMostExtraBytes) return BadAt(tar, at, "a header has more than a megabyte");
      MUSTER_ASSIGN_OR_RETURN(const std::string extra, ReadString(tar, begin, bytes));
      if (kind == 'L') next.name = std::string(UpToZero(extra));
      if (kind == 'K') next.link = std::string(UpToZero(extra));
      if (kind == 'x') MUSTER_RETURN_IF_ERROR(TakePax(tar, at, extra, next));
    } else {
      std::string name(UpToZero(view.substr(0, 100)));
      const absl::string_view prefix = UpToZero(view.substr(345, 155));
      if (view.substr(257, 6) == absl::string_view("ustar\0", 6) && !prefix.empty())
        name = absl::StrCat(prefix, "/", name);
      const Extra own = std::exchange(next, {});
      if (!own.name.empty()) name = own.name;
      const std::string link =
          own.link.empty() ? std::string(UpToZero(view.substr(157, 100))) : own.link;
      MUSTER_RETURN_IF_ERROR(
          TakeMember(tar, {at, kind, link}, {std::move(name), begin, bytes}, by_name, members));
      if (members.size() > kMostMembers)
        return BadAt(tar, at, absl::StrCat("it holds more than ", kMostMembers, " files"));
    }
    const uint64_t blocks = (bytes + kBlock - 1) / kBlock;
    at = begin + std::min(blocks * kBlock, tar.size() - begin);
  }
  return BadAt(tar, tar.size(), "it has no mark of its end; it is cut off");
}

}  // namespace muster
