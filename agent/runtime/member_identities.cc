#include "agent/runtime/member_identities.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "lib/base/file_lock.h"
#include "lib/base/status.h"
#include "lib/base/this_process.h"
#include "lib/base/whole_file.h"
#include "lib/identity/certificates.h"
#include "lib/identity/clocks.h"
#include "lib/identity/identity_folder.h"
#include "lib/identity/keys.h"
#include "lib/log/log.h"

namespace muster::agent {
namespace {

constexpr char kLock[] = "lock";

// "/etc/muster/host" → "/etc/muster/host-members"
std::string BesideOf(const std::string& own_folder) {
  std::filesystem::path path = std::filesystem::absolute(own_folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // it ended with a slash
  return absl::StrCat(path.string(), "-members");
}

// As FolderOf names that of a process. Whatever else lies there is not ours to remove.
bool IsOfProcess(const std::string& name) {
  return name.size() == ToHex(Incarnation{}).size() &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); });
}

}  // namespace

absl::StatusOr<std::unique_ptr<MemberIdentities>> MemberIdentities::Open(
    std::shared_ptr<IdentitySource> own, const std::string& own_folder) {
  const std::string folder = BesideOf(own_folder);
  const std::string what = "the folder for the identities of members";
  MUSTER_RETURN_IF_ERROR(Prefix(what, CloseToOthers(folder, /*may_be_link=*/false)));
  absl::StatusOr<Descriptor> lock = LockFile(absl::StrCat(folder, "/", kLock));
  if (absl::IsAborted(lock.status()))
    return absl::FailedPreconditionError(
        absl::StrCat(what, ", ", folder,
                     ", is in use by another agent: each host has an identity "
                     "of its own"));
  MUSTER_RETURN_IF_ERROR(Prefix(what, lock.status()));
  std::unique_ptr<MemberIdentities> identities(
      new MemberIdentities(std::move(own), folder, *std::move(lock)));
  identities->Empty();
  return identities;
}

MemberIdentities::~MemberIdentities() { Empty(); }

void MemberIdentities::Empty() const {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, none)) {
    std::error_code ignored;
    if (IsOfProcess(entry.path().filename().string()))
      std::filesystem::remove_all(entry.path(), ignored);
  }
}

std::string MemberIdentities::FolderOf(Incarnation process) const {
  return absl::StrCat(folder_, "/", ToHex(process));
}

std::string MemberIdentities::FolderOf(const ProcessKey& key) const {
  const SignMember* const one = certificates_.Find(key);
  return one == nullptr ? "" : FolderOf(one->process.incarnation);
}

Incarnation MemberIdentities::IncarnationOf(const ProcessKey& key) const {
  const SignMember* const one = certificates_.Find(key);
  return one == nullptr ? Incarnation{} : one->process.incarnation;
}

absl::StatusOr<SignMember> MemberIdentities::Begin(const ProcessKey& key,
                                                   PlacementNumber placement) {
  End(key);
  SignMember question{{key.job, key.name, placement, DrawIncarnation()}, {}};
  // Only a later one is signed, also after the clock was set back.
  Incarnation& drawn = question.process.incarnation;
  drawn.hi = std::max(drawn.hi, last_drawn_.hi + 1);
  MUSTER_ASSIGN_OR_RETURN(std::string key_pem, MakeKey());
  MUSTER_ASSIGN_OR_RETURN(question.public_key, PublicKeyOf(key_pem));
  last_drawn_ = drawn;
  keys_[key] = std::move(key_pem);
  certificates_.Begin(question);
  return question;
}

void MemberIdentities::End(const ProcessKey& key) {
  if (const std::string folder = FolderOf(key); !folder.empty()) {
    std::error_code ignored;  // at the next start it is tried again
    std::filesystem::remove_all(folder, ignored);
  }
  certificates_.End(key);
  keys_.erase(key);
}

absl::Status MemberIdentities::Install(const MemberSigned& answer, absl::Duration& lasts) const {
  const ProcessName& process = answer.process;
  MUSTER_ASSIGN_OR_RETURN(
      const Identity identity,
      MakeIdentity(answer.authority_pem, answer.certificate_pem, keys_.at(KeyOf(process))));
  const PeerName wanted{
      own_->Get()->name.cluster,
      MemberPeer{process.job, process.name, process.placement, process.incarnation}};
  if (identity.name != wanted)
    return absl::InvalidArgumentError(
        absl::StrCat("it names ", ToUri(identity.name), " instead of ", ToUri(wanted)));
  const absl::Time now = absl::Now();
  MUSTER_RETURN_IF_ERROR(
      CheckClocks(now, absl::FromUnixMillis(answer.now_unix_ms), "the coordinator"));
  MUSTER_RETURN_IF_ERROR(CheckTime(identity, now));
  lasts = identity.ends - now;
  return WriteIdentity(FolderOf(process.incarnation), identity);
}

std::optional<SupervisorEvent> MemberIdentities::On(const MemberSigned& answer) {
  const ProcessName& process = answer.process;
  const Certificates::Meaning meaning = certificates_.MeaningOf(process);
  if (meaning == Certificates::Meaning::kStale) return std::nullopt;
  absl::Duration lasts;
  const absl::Status installed = Install(answer, lasts);
  if (!installed.ok())
    return Fail(process, absl::StrCat("its certificate cannot be used: ", installed.message()));
  certificates_.Got(process, HashOfTrust(answer.authority_pem), absl::ToChronoNanoseconds(lasts),
                    std::chrono::steady_clock::now(), absl::Now());
  if (meaning == Certificates::Meaning::kRenewal) return std::nullopt;
  return Signed{KeyOf(process), process.placement};
}

std::optional<SupervisorEvent> MemberIdentities::On(const SignRefused& refused) {
  return Fail(refused.process,
              absl::StrCat("the coordinator signs no certificate for it: ", refused.why));
}

std::optional<SupervisorEvent> MemberIdentities::Fail(const ProcessName& process,
                                                      const std::string& why) {
  const Certificates::Meaning meaning = certificates_.MeaningOf(process);
  if (meaning == Certificates::Meaning::kRenewal)
    LogWarning("%s of job %s goes on with the certificate that it has: %s", process.name,
               process.job, why);
  if (meaning == Certificates::Meaning::kFirst) End(KeyOf(process));
  certificates_.Failed(process, std::chrono::steady_clock::now());
  if (meaning != Certificates::Meaning::kFirst) return std::nullopt;
  return SignFailed{KeyOf(process), process.placement, why};
}

}  // namespace muster::agent
