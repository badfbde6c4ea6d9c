// The tokens of people and hosts and whom they may be shown to: where these lie, and the commands
// about them.
#pragma once

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/rest_client.h"

namespace muster::cli {

// What the environment says of where a token, and the authority, may lie.
struct TokenPlaces {
  std::string file;         // MUSTER_TOKEN_FILE; empty: not set
  std::string home;         // HOME; empty: not set
  std::string authority{};  // MUSTER_AUTHORITY; empty: not set
};

struct FoundTrust {
  Trust trust;                // of nobody: there is no authority
  bool is_of_folder = false;  // the cluster's, in its folder
};
// Whom to trust: in the file of --authority, else in that which the environment names, else in the
// folder of the cluster, else in the home folder. An error: it holds no certificate, and which.
absl::StatusOr<FoundTrust> FindTrust(const TokenPlaces& places, const RemoteArguments& remote);

// That of the cluster in a folder; of nobody: there is none, or it cannot be read.
Trust TrustIn(const std::string& dir);

// kFailedPrecondition: the command may not ask there in plain text, or nobody knows whom to trust
// there; and what to do.
absl::Status CheckMayAsk(const RemoteArguments& remote, const std::string& url);

// The token in the file that is named, else, where one may be sent at all, that of the first admin
// in the folder of the cluster (empty: of another one), else the one in the home folder; empty:
// there is none. `to` is a URL. An error: the file that is named, or another that may be read,
// holds none.
absl::StatusOr<std::string> FindToken(const TokenPlaces& places, const std::string& dir,
                                      const std::string& to);

// All of it: `token` and `trust` of the command. The token in the home folder goes to nobody
// who is trusted only because the folder of the cluster says so.
absl::Status FindWhatItShows(const TokenPlaces& places, RemoteArguments& remote);

absl::StatusOr<int> MakeToken(const RemoteArguments& arguments, const RestClient& rest,
                              std::ostream& out);
absl::StatusOr<int> ListTokens(const RemoteArguments& arguments, const RestClient& rest,
                               std::ostream& out);
absl::StatusOr<int> MakeHostToken(const RemoteArguments& arguments, const RestClient& rest,
                                  std::ostream& out);
// Of a person, or of a host.
absl::StatusOr<int> RevokeToken(const RemoteArguments& arguments, const RestClient& rest,
                                std::ostream& out);

}  // namespace muster::cli
