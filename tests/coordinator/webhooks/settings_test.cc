#include "coordinator/webhooks/settings.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/webhooks/settled_reading.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/identity/certificates.h"

namespace muster::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string SecretOf(size_t bytes) {
  return absl::StrCat("whsec_", absl::Base64Escape(std::string(bytes, 'k')), "\n");
}

class WebhookSettingsTest : public testing::Test {
 protected:
  WebhookSettingsTest() {
    if (mkdtemp(folder_.data()) == nullptr) std::abort();
    Write("good.secret", SecretOf(32));
  }
  ~WebhookSettingsTest() override { std::filesystem::remove_all(folder_); }
  std::string Write(const std::string& name, const std::string& text, mode_t mode = 0600) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    chmod(path.c_str(), mode);
    return path;
  }
  std::string folder_ = testing::TempDir() + "webhooks-XXXXXX";
};

TEST(ParseWebhooksTest, ReadsAll) {
  const auto read = ParseWebhooks(R"(
webhooks:
  - name: chat
    url: https://hooks.example.com:8443/muster?room=7
    secret_file: chat.secret
    ca_file: ca.pem
    events: [job.done, job.failed]
    namespaces: [default, team]
  - {name: local, url: "http://127.0.0.1:9000/", secret_file: /s}
  - {name: six, url: "http://[::1]:9000/", secret_file: /s}
)",
                                  "w.yaml");
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 3u);
  EXPECT_EQ((*read)[0].url, "https://hooks.example.com:8443/muster?room=7");
  EXPECT_EQ((*read)[0].ca_file, "ca.pem");
  EXPECT_THAT((*read)[0].events, ElementsAre("job.done", "job.failed"));
  EXPECT_TRUE(Wants((*read)[0], {.type = "job.done", .name_space = "team"}));
  EXPECT_FALSE(Wants((*read)[0], {.type = "job.done", .name_space = "others"}));
  EXPECT_FALSE(Wants((*read)[0], {.type = "job.queued", .name_space = "team"}));
  EXPECT_TRUE(Wants((*read)[1], {.type = "job.queued", .name_space = "others"}));
}

TEST(ParseWebhooksTest, SaysWhatIsWrongAndWhere) {
  const auto one = [](const std::string& fields) {
    return absl::StrCat("webhooks:\n  - name: chat\n", fields);
  };
  const std::string rest = "    secret_file: s\n";
  const auto url = [&](const std::string& text) {
    return one(absl::StrCat(rest, "    url: \"", text, "\"\n"));
  };
  const std::string good = rest + "    url: https://a/\n";
  std::string many = "webhooks:\n";
  for (int i = 0; i < 33; ++i)
    absl::StrAppend(&many, "  - {name: n", i, ", url: https://a/, secret_file: s}\n");
  const struct {
    std::string text;
    std::string says;
  } kCases[] = {
      {"", "w.yaml"},
      {"[]", "w.yaml:1: a list is not a mapping"},
      {"hooks: []", "w.yaml:1: hooks: no such field"},
      {"{}", "webhooks: is missing"},
      {"webhooks: 3", "w.yaml:1: webhooks: must be a list"},
      {many, "at most 32 webhooks"},
      {"webhooks:\n  - 3\n", "w.yaml:2: webhooks[0]: 3 is not a mapping"},
      {one("    secret_file: s\n"), "webhooks[0].url: is missing"},
      {one("    url: https://a/\n"), "webhooks[0].secret_file: is missing"},
      {"webhooks:\n  - {url: https://a/, secret_file: s}\n", "webhooks[0].name: is missing"},
      {"webhooks:\n  - {name: a/b, url: https://a/, secret_file: s}\n",
       "webhooks[0].name: must be"},
      {one(good + "    secret: x\n"), "w.yaml:5: webhooks[0].secret: no such field"},
      {one(good + "    events: [job.dnoe]\n"), "w.yaml:5: webhooks[0].events[0]:"},
      {one(good + "    events: [job.done, job.done]\n"), "events[1]: stands there twice"},
      {one(good + "    events: []\n"), "leave it out for all"},
      {one(good + "    events: job.done\n"), "events: must be a list"},
      {one(good + "    namespaces: ['a b']\n"), "namespaces[0]: must be"},
      {one(good) + "  - {name: chat, url: https://b/, secret_file: s}\n",
       "w.yaml:5: webhooks[1].name: 'chat' is the name of another one, too"},
      {url("https://ada:secret@a/"), "w.yaml:4: webhooks[0].url: holds a user or a password"},
      {url("https://ada@a/"), "holds a user or a password"},
      {url("http://hooks.example.com/"), "is plain text, which is for loopback alone"},
      {url("http://127.0.0.1.example.com/"), "is plain text"},
      {url("http://0.0.0.0/"), "is plain text"},
      {url("ftp://a/"), "has the scheme ftp; give an https URL"},
      {url("file:///etc/passwd"), "webhooks[0].url"},
      {url("gopher://a/"), "has the scheme gopher"},
      {url("hooks.example.com"), "is no URL"},
      {url("https://a/#x"), "holds a fragment"},
      {url("https://"), "is no URL"},
      {url("https://a:99999/"), "is no URL"},
      {one(good + "    namespaces: [Team]\n"), "namespaces[0]: must be a namespace: 1 to 63"},
      {url("https://a..b/"), "names a host with characters that none has"},
      {url("https://-a/"), "names a host"},
      {url("https://a*b/"), "webhooks[0].url"},
      {url("https://ex%61mple;x/"), "webhooks[0].url"},
      {url("https://a/\\nHost: b"), "is no URL"},
      {url("https://" + std::string(3000, 'a')), "is longer than 2048 bytes"},
  };
  for (const auto& c : kCases) {
    const auto read = ParseWebhooks(c.text, "w.yaml");
    EXPECT_TRUE(absl::IsInvalidArgument(read.status())) << c.text;
    EXPECT_THAT(std::string(read.status().message()),
                AllOf(StartsWith("w.yaml"), HasSubstr(c.says)))
        << c.text;
  }
}

TEST(ParseSecretsTest, SaysWhatIsWrong) {
  EXPECT_THAT(*ParseSecrets(SecretOf(24)), ElementsAre(std::string(24, 'k')));
  EXPECT_EQ(ParseSecrets(SecretOf(64) + "\r\n" + SecretOf(24))->size(), 2u);
  const struct {
    std::string text;
    std::string says;
  } kCases[] = {{"", "it holds no secret; make one with"},
                {"\n \n", "it holds no secret"},
                {"whsec_", "of 0 bytes"},
                {SecretOf(23), "of 23 bytes, and must be of 24 to 64"},
                {SecretOf(65), "of 65 bytes"},
                {"hunter2", "is no secret"},
                {"whsec_%%%%", "is no secret"},
                {SecretOf(24) + "x", "is no secret"},
                {SecretOf(24) + SecretOf(25) + SecretOf(26) + SecretOf(27), "it holds 4 secrets"}};
  for (const auto& c : kCases)
    EXPECT_THAT(std::string(ParseSecrets(c.text).status().message()), HasSubstr(c.says)) << c.text;
}

TEST_F(WebhookSettingsTest, FilesAreThoseBesideIt) {
  Write("ca.pem", MakeAuthority("c1", absl::Now()).value().certificates_pem);
  const std::string text =
      "webhooks:\n  - {name: a, url: https://a/, secret_file: good.secret, ca_file: ca.pem}\n";
  const auto read = ReadWebhooks(Write("w.yaml", text));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT((*read)[0].keys, ElementsAre(std::string(32, 'k')));
  EXPECT_EQ((*read)[0].ca_file, folder_ + "/ca.pem");
  EXPECT_THAT((*read)[0].ca, StartsWith("-----BEGIN CERTIFICATE"));
  // As Kubernetes mounts it.
  std::filesystem::create_symlink("w.yaml", folder_ + "/link.yaml");
  EXPECT_TRUE(ReadWebhooks(folder_ + "/link.yaml").ok());
}

TEST_F(WebhookSettingsTest, FilesThatCannotBeUsedAreNamed) {
  Write("open.secret", SecretOf(32), 0644);
  Write("short.secret", "whsec_aGk=\n");
  const auto with = [&](const std::string& fields) {
    const auto read = ReadWebhooks(
        Write("w.yaml", absl::StrCat("webhooks:\n  - {name: a, url: https://a/, ", fields, "}\n")));
    return std::string(read.status().message());
  };
  const std::string where = folder_ + "/w.yaml:2: webhooks[0].";
  EXPECT_THAT(with("secret_file: none"),
              AllOf(StartsWith(where + "secret_file"), HasSubstr(folder_ + "/none")));
  EXPECT_THAT(with("secret_file: open.secret"),
              AllOf(StartsWith(where + "secret_file"), HasSubstr("open.secret")));
  EXPECT_THAT(with("secret_file: short.secret"), HasSubstr("of 2 bytes"));
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0644), 0);
  for (const char* file : {"none", "pipe", "good.secret", "/dev/zero", ".", "''"})
    EXPECT_THAT(with(absl::StrCat("secret_file: good.secret, ca_file: ", file)),
                StartsWith(where + "ca_file"))
        << file;
  EXPECT_THAT(std::string(ReadWebhooks(folder_ + "/absent").status().message()),
              HasSubstr(folder_ + "/absent"));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadWebhooks(folder_).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadWebhooks("/dev/zero").status()));
}

// Half of a file, or of a secret, is what may be read while it is written; also one that is valid.
TEST(SettledReadingTest, CountsOnceTwoInARowSayTheSame) {
  const std::vector<WebhookSettings> both = {{.name = "a"}, {.name = "b"}}, half = {{.name = "a"}};
  const absl::Status bad = absl::InvalidArgumentError("bad"), worse = absl::DataLossError("worse");
  SettledReading reading;
  reading.Obeyed(both);
  EXPECT_FALSE(reading.Settles(both)) << "it is as before";
  EXPECT_FALSE(reading.Settles(half));
  EXPECT_FALSE(reading.Settles(bad));
  EXPECT_FALSE(reading.Settles(half));
  EXPECT_FALSE(reading.Settles(both));
  EXPECT_FALSE(reading.Settles(both)) << "it is as before";
  EXPECT_FALSE(reading.Settles(half));
  EXPECT_TRUE(reading.Settles(half)) << "somebody means it";
  EXPECT_FALSE(reading.Settles(half));
  EXPECT_FALSE(reading.Settles(bad));
  EXPECT_FALSE(reading.Settles(worse));
  EXPECT_TRUE(reading.Settles(worse));
  EXPECT_FALSE(reading.Settles(worse)) << "once";
  EXPECT_FALSE(reading.Settles(half));
  EXPECT_TRUE(reading.Settles(half)) << "it is obeyed already, which does no harm";
  std::vector<WebhookSettings> signs_otherwise = half;
  signs_otherwise[0].keys = {"k"};
  EXPECT_FALSE(reading.Settles(signs_otherwise));
  EXPECT_TRUE(reading.Settles(signs_otherwise));
}

}  // namespace
}  // namespace muster::coordinator
