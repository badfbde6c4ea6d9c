#include "coordinator/mlflow/settings.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/identity/certificates.h"
#include "lib/identity/identity_folder.h"

namespace muster::coordinator {
namespace {

using testing::HasSubstr;
using testing::Not;
using Variables = std::map<std::string, std::string>;

absl::StatusOr<MlflowSettings> Settings(const MlflowAsked& asked, const Variables& variables = {}) {
  return MlflowSettingsOf(asked, [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
  });
}

TEST(MlflowSettings, WhoWeAreComesFromTheEnvironmentOrAFile) {
  const MlflowAsked asked{.url = "https://mlflow.example.com/base/"};
  EXPECT_EQ(Settings(asked)->url, "https://mlflow.example.com/base");
  EXPECT_EQ(Settings(asked)->authorization, "");
  EXPECT_EQ(Settings(asked, {{"MLFLOW_TRACKING_TOKEN", "abc"}})->authorization, "Bearer abc");
  EXPECT_EQ(Settings(asked, {{"MLFLOW_TRACKING_USERNAME", "me"},
                             {"MLFLOW_TRACKING_PASSWORD", "it"},
                             {"MLFLOW_TRACKING_TOKEN", "abc"}})
                ->authorization,
            "Basic bWU6aXQ=");
  const std::string file = testing::TempDir() + "mlflow-token-" + std::to_string(getpid());
  ASSERT_TRUE(WriteSecret(file, "of-the-file\n").ok());
  MlflowAsked with_file = asked;
  with_file.token_file = file;
  EXPECT_EQ(Settings(with_file, {{"MLFLOW_TRACKING_TOKEN", "abc"}})->authorization,
            "Bearer of-the-file");
  chmod(file.c_str(), 0644);
  EXPECT_THAT(std::string(Settings(with_file).status().message()),
              HasSubstr("--mlflow-token-file: "));
  std::filesystem::remove(file);
  EXPECT_THAT(std::string(Settings(with_file).status().message()),
              HasSubstr("--mlflow-token-file: "));
}

// As Kubernetes mounts a secret, and Debian the authorities that it knows.
TEST(MlflowSettings, WhomToTrustMayBeALink) {
  const auto authority = MakeAuthority("somebody", absl::Now());
  ASSERT_TRUE(authority.ok()) << authority.status();
  const std::string link = testing::TempDir() + "mlflow-ca-" + std::to_string(getpid()) + ".pem";
  std::ofstream(link + ".data") << authority->certificates_pem;
  std::filesystem::create_symlink(link + ".data", link);
  const auto settings =
      Settings({.url = "https://mlflow.example.com"}, {{"MLFLOW_TRACKING_SERVER_CERT_PATH", link}});
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->ca, authority->certificates_pem);
  std::filesystem::remove(link);
  std::filesystem::remove(link + ".data");
}

TEST(MlflowSettings, WhatIsWrongIsSaidWithoutASecret) {
  struct Case {
    MlflowAsked asked;
    Variables variables;
    const char* why;
  };
  const std::string url = "https://mlflow.example.com";
  const Case cases[] = {
      {{.url = "mlflow"}, {}, "--mlflow: 'mlflow' is no URL, as in https://mlflow.example.com"},
      {{.url = "http://mlflow.example.com"}, {}, "plain text, which is for loopback alone"},
      {{.url = "ftp://x"}, {}, "has the scheme ftp"},
      {{.url = "https://me:secret@x"}, {}, "set MLFLOW_TRACKING_USERNAME"},
      {{.url = "https://x?a=b"}, {}, "holds a query"},
      {{.url = url, .experiment = "a\nb"}, {}, "--mlflow-experiment: must be one line"},
      {{.url = url, .experiment = std::string(300, 'a')}, {}, "--mlflow-experiment: must be"},
      {{.url = url}, {{"MLFLOW_TRACKING_USERNAME", "me"}}, "MLFLOW_TRACKING_PASSWORD is not"},
      {{.url = url}, {{"MLFLOW_TRACKING_PASSWORD", "secret"}}, "MLFLOW_TRACKING_USERNAME is not"},
      {{.url = url}, {{"MLFLOW_TRACKING_TOKEN", "secret\r\nX: y"}}, "MLFLOW_TRACKING_TOKEN: holds"},
      {{.url = url},
       {{"MLFLOW_TRACKING_SERVER_CERT_PATH", "/nowhere"}},
       "MLFLOW_TRACKING_SERVER_CERT_PATH: "},
      {{.url = url},
       {{"MLFLOW_TRACKING_SERVER_CERT_PATH", "/dev/null"}},
       "MLFLOW_TRACKING_SERVER_CERT_PATH: "},
  };
  for (const Case& c : cases) {
    const absl::Status wrong = Settings(c.asked, c.variables).status();
    EXPECT_TRUE(absl::IsInvalidArgument(wrong)) << wrong;
    EXPECT_THAT(std::string(wrong.message()), HasSubstr(c.why));
    EXPECT_THAT(std::string(wrong.message()), Not(HasSubstr("secret")));
  }
  EXPECT_TRUE(Settings({.url = "http://127.0.0.1:5000"}).ok());
}

}  // namespace
}  // namespace muster::coordinator
