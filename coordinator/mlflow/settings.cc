#include "coordinator/mlflow/settings.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/curl/url.h"
#include "lib/identity/certificates.h"
#include "lib/identity/identity_folder.h"

namespace muster::coordinator {
namespace {

constexpr size_t kLongestExperiment = 256;
constexpr char kToken[] = "MLFLOW_TRACKING_TOKEN";
constexpr char kUser[] = "MLFLOW_TRACKING_USERNAME";
constexpr char kPassword[] = "MLFLOW_TRACKING_PASSWORD";
constexpr char kTrusted[] = "MLFLOW_TRACKING_SERVER_CERT_PATH";

absl::Status Wrong(absl::string_view what, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(what, ": ", why));
}

bool IsOneLine(absl::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

absl::StatusOr<std::string> BearerOf(absl::string_view source, absl::string_view text) {
  const absl::string_view token = absl::StripAsciiWhitespace(text);
  const bool is_token = !token.empty() && std::all_of(token.begin(), token.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (!is_token) return Wrong(source, "holds no token, which is one word");
  return absl::StrCat("Bearer ", token);
}

absl::StatusOr<std::string> AuthorizationOf(
    const std::string& file, const std::function<std::string(const char* name)>& variable) {
  if (!file.empty()) {
    const absl::StatusOr<std::string> text = ReadSecret(file);
    if (!text.ok()) return Wrong("--mlflow-token-file", text.status().message());
    return BearerOf(absl::StrCat("--mlflow-token-file: '", Cut(Printable(file)), "'"), *text);
  }
  const std::string user = variable(kUser), password = variable(kPassword);
  if (user.empty() != password.empty())
    return Wrong(user.empty() ? kPassword : kUser,
                 absl::StrCat("is set, and ", user.empty() ? kUser : kPassword, " is not"));
  if (!user.empty()) {
    if (user.find(':') != std::string::npos) return Wrong(kUser, "no name of a user has a colon");
    return absl::StrCat("Basic ", absl::Base64Escape(absl::StrCat(user, ":", password)));
  }
  const std::string token = variable(kToken);
  return token.empty() ? absl::StatusOr<std::string>("") : BearerOf(kToken, token);
}

}  // namespace

absl::StatusOr<MlflowSettings> MlflowSettingsOf(
    const MlflowAsked& asked, const std::function<std::string(const char* name)>& variable) {
  MlflowSettings settings{.url = asked.url, .experiment = asked.experiment};
  const std::string why =
      WhyNotSentTo(asked.url, "https://mlflow.example.com",
                   absl::StrCat("everybody on this machine could read it: set ", kUser, " and ",
                                kPassword, " in the environment"));
  // A password in it is not repeated.
  const bool may_be_named = asked.url.find('@') == std::string::npos;
  if (!why.empty())
    return Wrong("--mlflow",
                 may_be_named ? absl::StrCat("'", Cut(Printable(asked.url)), "' ", why) : why);
  if (asked.url.find('?') != std::string::npos)
    return Wrong("--mlflow", "holds a query (?...); name where the server answers, without one");
  while (!settings.url.empty() && settings.url.back() == '/') settings.url.pop_back();
  if (asked.experiment.size() > kLongestExperiment || !IsOneLine(asked.experiment))
    return Wrong("--mlflow-experiment",
                 absl::StrCat("must be one line of at most ", kLongestExperiment, " bytes"));
  MUSTER_ASSIGN_OR_RETURN(settings.authorization, AuthorizationOf(asked.token_file, variable));
  const std::string trusted = variable(kTrusted);
  if (trusted.empty()) return settings;
  absl::StatusOr<std::string> pem = ReadGivenFile(trusted);
  if (!pem.ok()) return Wrong(kTrusted, pem.status().message());
  if (const absl::Status read = ClusterOfAuthority(*pem).status(); !read.ok())
    return Wrong(kTrusted, absl::StrCat("'", Cut(Printable(trusted)), "': ", read.message()));
  settings.ca = *std::move(pem);
  return settings;
}

}  // namespace muster::coordinator
