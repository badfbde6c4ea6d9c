#include "tests/identity/watched_cluster.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "lib/identity/identity_folder.h"
#include "lib/join/join_token.h"
#include "nlohmann/json.hpp"
#include "tests/integration/cluster.h"
#include "tests/integration/run_folder.h"
#include "tests/integration/up_cluster.h"
#include "tests/support/text_of.h"

namespace muster::identity {
namespace {

namespace fs = std::filesystem;
using integration::MusterCommand;

// What is secret of a token, which begins with a name.
std::string SecretPart(const std::string& token) {
  const std::string text(absl::StripAsciiWhitespace(token));
  EXPECT_GE(text.size(), 32u) << "no token";
  return text.substr(text.rfind('-') + 1);
}

// The 32 bytes behind the head of a private key of P-256 as they stand in a file, and a line of
// that file that holds some of them.
void AddKey(const std::string& path, std::vector<Secret>& secrets) {
  const std::vector<std::string> lines = absl::StrSplit(TextOf(path), '\n');
  std::string body, der;
  for (const std::string& line : lines)
    if (!line.empty() && line[0] != '-') body += line;
  constexpr size_t kHead = 36, kNumber = 32;
  ASSERT_TRUE(absl::Base64Unescape(body, &der) && der.size() > kHead + kNumber) << path;
  ASSERT_GT(lines.size(), 3u);
  secrets.push_back({path + " as text", lines[2], path.substr(path.rfind('/'))});
  secrets.push_back({path, der.substr(kHead, kNumber), "nowhere"});
}

void AddDescendants(pid_t pid, std::vector<pid_t>& all) {
  all.push_back(pid);
  std::error_code gone;
  for (fs::directory_iterator it(absl::StrCat("/proc/", pid, "/task"), gone), end;
       !gone && it != end; it.increment(gone)) {
    std::ifstream in(it->path() / "children");
    for (pid_t child = 0; in >> child;) AddDescendants(child, all);
  }
}

}  // namespace

WatchedCluster::WatchedCluster(std::string dir)
    : dir_(std::move(dir)),
      // It asks for tokens because it can be reached from elsewhere.
      up_(MusterCommand({"up", "--dir", dir_ + "/cluster", "--listen", "0.0.0.0:0", "--coordinator",
                         "127.0.0.1:0", "--slots", "1"})) {
  EXPECT_TRUE(up_.WaitFor("ready at https://0.0.0.0:")) << up_.output();
  const nlohmann::json at = integration::ReadJson(dir_ + "/cluster/cluster.json");
  grpc_ = at.value("grpc", "");
  MakeToken({"make", "ada", "--role", "submitter", "--namespace", "default"}, "ada.token");
  MakeToken({"host", "second", "--namespace", "default"}, "second.token");
  second_.emplace(MusterCommand({"agent", "--host", "second", "--coordinator", grpc_, "--join",
                                 at.value("join", ""), "--join-token-file", dir_ + "/second.token",
                                 "--identity", dir_ + "/second-identity", "--dir", dir_ + "/second",
                                 "--slots", "1"}));
  EXPECT_TRUE(second_->WaitFor("joined the cluster")) << second_->output();
  const Said certificate = Say({"certs", "user", "--identity", IdentityOfAda()});
  EXPECT_EQ(certificate.exit_code, 0) << certificate.text;
}

void WatchedCluster::MakeToken(const std::vector<std::string>& words, const std::string& file) {
  std::vector<std::string> command = {"token"};
  command.insert(command.end(), words.begin(), words.end());
  const Said token = Say(command, /*as_admin=*/true);
  EXPECT_EQ(token.exit_code, 0) << token.text;
  EXPECT_TRUE(WriteSecret(dir_ + "/" + file, token.text).ok());
}

void WatchedCluster::Submit(const std::string& spec) {
  integration::WriteFile(dir_ + "/job.yaml", spec);
  const Said said = Say({"submit", dir_ + "/job.yaml", "--id", "job"});
  ASSERT_EQ(said.exit_code, 0) << said.text;
}

bool WatchedCluster::AwaitStep() const {
  Program watch(MusterCommand({"watch", "job", "--json", "--dir", dir_ + "/cluster"}),
                As(/*admin=*/false));
  return watch.WaitFor("\"event\":\"step\"");
}

WatchedCluster::Said WatchedCluster::Say(std::vector<std::string> words, bool as_admin) const {
  words.insert(words.end(), {"--dir", dir_ + "/cluster"});
  Program program(MusterCommand(std::move(words)), As(as_admin));
  const int exit_code = program.End();
  return {exit_code, program.output()};
}

// Whose token a command takes: that in --dir is the admin's.
std::function<bool()> WatchedCluster::As(bool admin) const {
  return [admin, token = dir_ + "/ada.token"] {
    return admin ? unsetenv("MUSTER_TOKEN_FILE") == 0
                 : setenv("MUSTER_TOKEN_FILE", token.c_str(), 1) == 0;
  };
}

std::vector<Secret> WatchedCluster::Secrets() const {
  const std::string identity = dir_ + "/cluster/store/identity";
  std::vector<Secret> secrets = {
      {"the admin's token", SecretPart(TextOf(identity + "/admin.token")), "/admin.token"},
      {"ada's token", SecretPart(TextOf(dir_ + "/ada.token")), "/ada.token"},
  };
  const std::pair<const char*, std::string> joining[] = {
      {"the token of a host", TextOf(dir_ + "/second.token")},
      {"the secret of the run", TextOf(identity + "/join.secret")}};
  for (const auto& [what, text] : joining) {
    const absl::StatusOr<JoinToken> token =
        ParseJoinToken(std::string(absl::StripAsciiWhitespace(text)));
    EXPECT_TRUE(token.ok()) << token.status();
    if (!token.ok()) continue;
    const std::string key = JoinKeyOf(token->secret);
    const char* const home = token->host.empty() ? "/join.secret" : ".token";
    secrets.push_back({what, SecretPart(text), home});
    secrets.push_back({absl::StrCat("the key of ", what), key, "nowhere"});
    secrets.push_back({absl::StrCat("the key of ", what, " as text"), absl::BytesToHexString(key),
                       "/store/journal/"});
  }
  std::error_code gone;
  for (fs::recursive_directory_iterator it(dir_, gone), end; !gone && it != end; it.increment(gone))
    if (it->path().filename() == "key.pem" || it->path().filename() == "authority.key")
      AddKey(it->path(), secrets);
  return secrets;
}

std::vector<pid_t> WatchedCluster::Processes() const {
  std::vector<pid_t> all;
  AddDescendants(up_.pid(), all);
  AddDescendants(second_->pid(), all);
  return all;
}

void WatchedCluster::End() {
  second_->Signal(SIGTERM);
  EXPECT_EQ(second_->End(), 75) << second_->output();
  up_.Signal(SIGINT);
  up_.End();
}

}  // namespace muster::identity
