#include "cli/tokens.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "cli/cluster_folder.h"
#include "lib/base/exit_codes.h"
#include "lib/base/loopback.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/identity/certificates.h"

namespace muster::cli {
namespace {

constexpr char kHttp[] = "http://";
constexpr char kHttps[] = "https://";

absl::StatusOr<std::string> TokenIn(const std::string& path) {
  constexpr size_t kMostBytes = 4096;
  MUSTER_ASSIGN_OR_RETURN(const std::string content, ReadGivenFile(path, kMostBytes));
  const std::string token(absl::StripAsciiWhitespace(content));
  const bool is_word = std::all_of(token.begin(), token.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (token.empty() || !is_word)
    return absl::InvalidArgumentError(
        absl::StrCat(path, " holds no token, which is one word, as muster token make prints it"));
  return token;
}

std::string AuthorityFileAtHome(const TokenPlaces& places) {
  return places.home.empty() ? "" : places.home + "/.config/muster/authority.pem";
}

bool IsTrustedAtHome(const TokenPlaces& places, const Trust& trust) {
  return ReadGivenFile(AuthorityFileAtHome(places), kMostPemBytes).value_or("") ==
         trust.authority_pem;
}

}  // namespace

absl::StatusOr<FoundTrust> FindTrust(const TokenPlaces& places, const RemoteArguments& remote) {
  struct Place {
    std::string file;
    const char* called;
    bool is_named;
  };
  const std::string home = AuthorityFileAtHome(places);
  const std::string of_folder = AuthorityFileIn(remote.dir);
  const Place all[] = {{remote.authority, "--authority", true},
                       {places.authority, "MUSTER_AUTHORITY", true},
                       {of_folder, "--dir", false},
                       {home, "the home folder", false}};
  for (const auto& [file, called, is_named] : all) {
    if (file.empty()) continue;
    absl::StatusOr<std::string> pem = ReadGivenFile(file, kMostPemBytes);
    if (!pem.ok() && !is_named) continue;
    if (!pem.ok()) return Prefix(called, pem.status());
    absl::StatusOr<std::string> cluster = ClusterOfAuthority(*pem);
    if (!cluster.ok()) return Prefix(absl::StrCat(called, ": ", file), cluster.status());
    return FoundTrust{{*std::move(pem), *std::move(cluster)}, file == of_folder};
  }
  if (remote.has_dir) MUSTER_RETURN_IF_ERROR(CheckMayLook(remote.dir));
  return FoundTrust{};
}

Trust TrustIn(const std::string& dir) {
  const absl::StatusOr<FoundTrust> found = FindTrust({}, {.dir = dir});
  return found.ok() ? found->trust : Trust{};
}

absl::Status CheckMayAsk(const RemoteArguments& remote, const std::string& url) {
  if (url.empty()) return absl::OkStatus();  // nobody is asked
  const bool is_plain = !absl::StartsWith(url, kHttps);
  const bool is_trusted = !remote.trust.authority_pem.empty();
  if (remote.may_ask_in_plain_text || (!is_plain && is_trusted)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      is_plain ? absl::StrCat(url, " is plain text, and a coordinator is asked over https:// alone")
               : absl::StrCat("whom to trust at ", url, " is not known"),
      ": name the folder of the cluster with --dir, or its authority with --authority FILE "
      "(authority.pem of the coordinator's identity); where none runs yet, muster up starts one"));
}

absl::StatusOr<std::string> FindToken(const TokenPlaces& places, const std::string& dir,
                                      const std::string& to) {
  if (!places.file.empty()) {
    const absl::StatusOr<std::string> token = TokenIn(places.file);
    return token.ok() ? token : Prefix("MUSTER_TOKEN_FILE", token.status());
  }
  // No other is sent a token (lib/http/client.h), and it may need none.
  if (!absl::StartsWith(to, kHttps) && !IsLoopbackAddress(absl::StripPrefix(to, kHttp))) return "";
  std::vector<std::string> files;
  if (!dir.empty())
    for (const char* place : {"/identity/admin.token", "/store/identity/admin.token"})
      files.push_back(dir + place);
  if (!places.home.empty()) files.push_back(places.home + "/.config/muster/token");
  for (const std::string& file : files) {
    absl::StatusOr<std::string> token = TokenIn(file);
    // That of an admin is nobody else's business.
    if (token.ok() || absl::IsInvalidArgument(token.status())) return token;
  }
  return "";
}

absl::Status FindWhatItShows(const TokenPlaces& places, RemoteArguments& remote) {
  MUSTER_ASSIGN_OR_RETURN(FoundTrust found, FindTrust(places, remote));
  const std::string of_folder =
      remote.has_dir && !remote.has_to ? UrlOfCluster(remote.dir) : std::string();
  const std::string& url = of_folder.empty() ? remote.to : of_folder;
  // Whoever is trusted for another reason than the folder may be of another cluster.
  const bool is_other = absl::StartsWith(url, kHttps) && !found.is_of_folder;
  // And whoever is trusted for the folder alone may be anybody who could make one where we are.
  TokenPlaces shown = places;
  if (absl::StartsWith(url, kHttps) && found.is_of_folder && !IsTrustedAtHome(places, found.trust))
    shown.home = "";
  MUSTER_ASSIGN_OR_RETURN(remote.token, FindToken(shown, is_other ? "" : remote.dir, url));
  remote.trust = std::move(found.trust);
  return absl::OkStatus();
}

absl::StatusOr<int> MakeToken(const RemoteArguments& arguments, const RestClient& rest,
                              std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(
      const TokenAnswer made,
      rest.MakeToken(arguments.user, arguments.role, arguments.name_space, arguments.expires_in));
  // Alone on its line, so that it may go into a file.
  out << (arguments.json ? made.json : Printable(made.token)) << std::endl;
  return kExitDone;
}

absl::StatusOr<int> ListTokens(const RemoteArguments& arguments, const RestClient& rest,
                               std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<TokenAnswer> tokens, rest.Tokens());
  if (arguments.json) {
    for (const TokenAnswer& token : tokens) out << token.json << std::endl;
    return kExitDone;
  }
  size_t user = 4, name_space = 9;
  for (const TokenAnswer& token : tokens) {
    user = std::max(user, token.user.size());
    name_space = std::max(name_space, token.name_space.size());
  }
  const auto say = [&](const TokenAnswer& token) {
    out << PrintableLines(absl::StrFormat(
               "%-12s  %-*s  %-9s  %-*s  %-24s  %s", token.id, static_cast<int>(user), token.user,
               token.role, static_cast<int>(name_space), token.name_space, token.made,
               token.expires.empty() ? "never" : token.expires))
        << std::endl;
  };
  say({.id = "id",
       .user = "user",
       .role = "role",
       .name_space = "namespace",
       .made = "made",
       .expires = "expires"});
  for (const TokenAnswer& token : tokens) say(token);
  return kExitDone;
}

absl::StatusOr<int> MakeHostToken(const RemoteArguments& arguments, const RestClient& rest,
                                  std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(
      const HostTokenAnswer made,
      rest.AdmitHost(arguments.host,
                     arguments.name_space.empty() ? "default" : arguments.name_space,
                     arguments.certified));
  if (arguments.json)
    out << made.json << std::endl;
  else if (made.token.empty())
    out << PrintableLines(absl::StrCat("host ", made.host, " may speak with its certificate"))
        << std::endl;
  else
    out << Printable(made.token) << std::endl;  // alone on its line, so that it may go into a file
  return kExitDone;
}

absl::StatusOr<int> RevokeToken(const RemoteArguments& arguments, const RestClient& rest,
                                std::ostream& out) {
  const absl::StatusOr<TokenAnswer> found = rest.RevokeToken(arguments.token_id);
  if (absl::IsNotFound(found.status())) {
    const absl::StatusOr<HostTokenAnswer> host = rest.RevokeHost(arguments.token_id);
    if (absl::IsNotFound(host.status()))
      return absl::NotFoundError(absl::StrCat(
          "there is neither a token ", Printable(arguments.token_id), " nor a host of that name; ",
          "`muster token list` and `muster hosts` show what there is"));
    MUSTER_RETURN_IF_ERROR(host.status());
    out << (arguments.json ? host->json
                           : PrintableLines(absl::StrCat("host ", host->host,
                                                         " has no part in the cluster any more")))
        << std::endl;
    return kExitDone;
  }
  MUSTER_RETURN_IF_ERROR(found.status());
  const TokenAnswer& token = *found;
  out << (arguments.json ? token.json
                         : PrintableLines(absl::StrCat("the token ", token.id, " of ", token.user,
                                                       " is of no use any more")))
      << std::endl;
  return kExitDone;
}

}  // namespace muster::cli
