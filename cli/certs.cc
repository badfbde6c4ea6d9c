#include "cli/certs.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cli/json_text.h"
#include "lib/base/exit_codes.h"
#include "lib/base/ids.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/base/this_process.h"
#include "lib/identity/clocks.h"
#include "lib/identity/identity_folder.h"
#include "lib/identity/keys.h"
#include "nlohmann/json.hpp"

namespace muster::cli {
namespace {

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

absl::StatusOr<int> Init(const CertsArguments& arguments, absl::Time now, std::ostream& out) {
  const std::string folder = arguments.dir + "/identity";
  // In a folder of muster up or train what is the coordinator's lies in `store`. A second authority
  // beside it would be taken for the cluster's by all commands with that --dir.
  const std::string in_store = arguments.dir + "/store/identity";
  const std::pair<std::string, std::string> known[] = {{arguments.dir + "/journal", folder},
                                                       {folder + "/authority.key", folder},
                                                       {arguments.dir + "/store/journal", in_store},
                                                       {in_store, in_store}};
  std::error_code error;
  for (const auto& [there, shown] : known)
    if (std::filesystem::exists(there, error))
      return absl::FailedPreconditionError(absl::StrCat(
          "--dir: ", there, " is there already: an authority is made with its cluster, once; ",
          "`muster certs show ", shown, "` shows what there is"));
  const std::string cluster =
      arguments.cluster.empty() ? ToHex(DrawIncarnation()) : arguments.cluster;
  MUSTER_RETURN_IF_ERROR(MakeUnusedAuthority(folder, cluster, now));
  out << PrintableLines(absl::StrCat(
             "The authority of cluster ", cluster, " is in ", folder,
             "; begin the cluster with muster-coordinator --authority --dir ", arguments.dir))
      << std::endl;
  return kExitDone;
}

absl::StatusOr<int> Show(const CertsArguments& arguments, absl::Time now, std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(const Identity own, ReadIdentity(arguments.folder));
  if (arguments.pem) {
    out << own.authority_pem << std::flush;
    return kExitDone;
  }
  MUSTER_ASSIGN_OR_RETURN(const CertificateContent content, ReadCertificate(own.certificate_pem));
  const absl::Status verified = Verify(own.authority_pem, own.certificate_pem, now).status();
  const bool signs = ReadAuthority(arguments.folder).ok();
  if (arguments.json) {
    const nlohmann::ordered_json json = {
        {"name", ToUri(own.name)},          {"begins", TimeText(own.begins)},
        {"ends", TimeText(own.ends)},       {"renews", TimeText(RenewAt(own))},
        {"reached_by", content.reached_by}, {"signs", signs},
        {"of_use", verified.ok()}};
    out << Text(json) << std::endl;
    return kExitDone;
  }
  std::string text =
      absl::StrCat(ToUri(own.name), "\n  from  ", TimeText(own.begins), "\n  until ",
                   TimeText(own.ends), ", renewed from ", TimeText(RenewAt(own)), " on\n");
  if (!content.reached_by.empty())
    absl::StrAppend(&text, "  reached by ", absl::StrJoin(content.reached_by, ", "), "\n");
  if (signs) absl::StrAppend(&text, "  with the authority's key\n");
  if (!verified.ok())
    absl::StrAppend(&text, "  of no use now: ", std::string(verified.message()), "\n");
  out << PrintableLines(text) << std::flush;
  return kExitDone;
}

// With a new key, so that it need not be known whether the one before is in other hands.
absl::StatusOr<Identity> AskForCertificate(const RestClient& rest) {
  MUSTER_ASSIGN_OR_RETURN(const std::string key, MakeKey());
  MUSTER_ASSIGN_OR_RETURN(const std::string public_key, PublicKeyOf(key));
  MUSTER_ASSIGN_OR_RETURN(const CertificateAnswer made, rest.SignUser(public_key));
  absl::Time theirs;
  std::string wrong;
  if (!absl::ParseTime(absl::RFC3339_full, made.now, &theirs, &wrong))
    return absl::DataLossError("the coordinator does not say what time it is");
  MUSTER_RETURN_IF_ERROR(CheckClocks(absl::Now(), theirs, "the coordinator"));
  absl::StatusOr<Identity> identity = MakeIdentity(made.authority_pem, made.certificate_pem, key);
  if (identity.ok() && std::holds_alternative<UserPeer>(identity->name.who)) return identity;
  return absl::DataLossError(absl::StrCat(
      "what the coordinator has signed is of no use: ",
      identity.ok() ? ToUri(identity->name) : std::string(identity.status().message())));
}

std::string TokenFileIn(const std::string& folder) { return folder + "/token"; }

absl::StatusOr<int> InstallCertificate(const RemoteArguments& arguments, const RestClient& rest,
                                       const TokenAnswer& token, std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(const Identity own, AskForCertificate(rest));
  const std::string& user = std::get<UserPeer>(own.name.who).user;
  if (!arguments.user.empty() && arguments.user != user)
    return absl::InvalidArgumentError(absl::StrCat(
        "the token is that of ", user, ", and makes no certificate of ", arguments.user,
        ": use the token of ", arguments.user, ", or let an admin make one (--role, --namespace)"));
  MUSTER_RETURN_IF_ERROR(Prefix("--identity", WriteIdentity(arguments.identity, own)));
  if (arguments.json) {
    nlohmann::ordered_json json = {
        {"name", ToUri(own.name)}, {"folder", arguments.identity}, {"ends", TimeText(own.ends)}};
    if (!token.id.empty()) json["token_id"] = token.id;
    out << Text(json) << std::endl;
    return kExitDone;
  }
  std::string text = absl::StrCat("The certificate ", ToUri(own.name), " is in ",
                                  arguments.identity, ", until ", TimeText(own.ends), ".\n");
  if (!token.id.empty())
    absl::StrAppend(&text, "Its token ", token.id, " is in ", TokenFileIn(arguments.identity),
                    "; muster token revoke ", token.id, " ends both.\n");
  out << PrintableLines(text) << std::flush;
  return kExitDone;
}

// Whoever has another's identity there, a coordinator for one, would be a user from then on.
absl::Status CheckIsOfUsers(const std::string& folder) {
  const absl::StatusOr<Identity> held = ReadIdentity(folder);
  const bool is_of_user = !held.ok() || std::holds_alternative<UserPeer>(held->name.who);
  if (is_of_user && absl::IsNotFound(ReadAuthority(folder).status())) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "--identity: ", folder, " holds the ",
      is_of_user ? "key of an authority" : absl::StrCat("identity ", ToUri(held->name)),
      ", which stays as it is; name a folder of the user's own"));
}

}  // namespace

absl::StatusOr<int> CertifyUser(const RemoteArguments& arguments, const RestClient& rest,
                                std::ostream& out) {
  MUSTER_RETURN_IF_ERROR(CheckIsOfUsers(arguments.identity));
  MUSTER_RETURN_IF_ERROR(Prefix("--identity", MakePrivateFolder(arguments.identity)));
  if (arguments.role.empty()) return InstallCertificate(arguments, rest, {}, out);
  MUSTER_ASSIGN_OR_RETURN(
      const TokenAnswer made,
      rest.MakeToken(arguments.user, arguments.role, arguments.name_space, arguments.expires_in));
  const absl::Status kept = WriteSecret(TokenFileIn(arguments.identity), made.token + "\n");
  absl::StatusOr<int> code = kept.ok()
                                 ? InstallCertificate(arguments, rest.As(made.token), made, out)
                                 : absl::StatusOr<int>(kept);
  if (code.ok()) return code;
  return Prefix(absl::StrCat("the token ", made.id, " of ", made.user,
                             " was made, and no certificate with it; muster token revoke ", made.id,
                             " takes it back"),
                code.status());
}

absl::StatusOr<int> Certs(const CertsArguments& arguments, absl::Time now, std::ostream& out) {
  return arguments.command == CertsArguments::Command::kInit ? Init(arguments, now, out)
                                                             : Show(arguments, now, out);
}

}  // namespace muster::cli
