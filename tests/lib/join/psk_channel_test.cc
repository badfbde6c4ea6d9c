// What the channel lets in: one who knows the key, by TLS 1.3 with one cipher, and nobody else.
#include "lib/join/psk_channel.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <map>
#include <random>

#include "absl/strings/match.h"
#include "lib/identity/certificates.h"
#include "lib/identity/identity.h"
#include "lib/identity/keys.h"
#include "lib/identity/openssl.h"

namespace muster {
namespace {

const std::string kKey(32, 'k');

PskChannel::FindKey Keys(std::map<std::string, std::string> keys) {
  return [keys = std::move(keys)](const std::string& name) -> std::optional<std::string> {
    const auto it = keys.find(name);
    return it == keys.end() ? std::nullopt : std::optional(it->second);
  };
}

std::unique_ptr<PskChannel> Server() {
  return PskChannel::Accepting(Keys({{"host:a", kKey}, {"host:b", std::string(32, 'b')}})).value();
}
std::unique_ptr<PskChannel> Client(const std::string& name, const std::string& key) {
  return PskChannel::Connecting(name, key).value();
}

// Until neither has anything more to say. The first error of either.
absl::Status Talk(PskChannel& a, PskChannel& b) {
  absl::Status failed;
  for (int turn = 0; turn < 10; ++turn) {
    const std::string from_a = a.Give(), from_b = b.Give();
    if (from_a.empty() && from_b.empty()) break;
    if (!from_a.empty()) failed.Update(b.Take(from_a));
    if (!from_b.empty()) failed.Update(a.Take(from_b));
  }
  return failed;
}

TEST(PskChannel, WhoKnowsTheKeyIsHeard) {
  const auto server = Server();
  const auto client = Client("host:a", kKey);
  ASSERT_TRUE(Talk(*client, *server).ok());
  EXPECT_TRUE(server->is_open());
  EXPECT_TRUE(client->is_open());
  EXPECT_EQ(server->identity(), "host:a");
  ASSERT_TRUE(client->Send("question").ok());
  ASSERT_TRUE(Talk(*client, *server).ok());
  EXPECT_EQ(server->Received(), "question");
  ASSERT_TRUE(server->Send(std::string(100'000, 'x')).ok());
  server->End();
  ASSERT_TRUE(Talk(*client, *server).ok());
  EXPECT_EQ(client->Received(), std::string(100'000, 'x'));
  EXPECT_TRUE(client->has_ended());
}

TEST(PskChannel, NobodyElseIs) {
  struct Case {
    const char* what;
    const char* name;
    std::string key;
  };
  for (const Case& c :
       {Case{"another key", "host:a", std::string(32, 'x')},
        Case{"the key of another host", "host:a", std::string(32, 'b')},
        Case{"an unknown name", "host:c", kKey}, Case{"no name", "", kKey},
        Case{"a long name", "host:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", kKey}}) {
    const auto server = Server();
    const auto client = PskChannel::Connecting(c.name, c.key);
    if (!client.ok()) continue;
    EXPECT_FALSE(Talk(**client, *server).ok()) << c.what;
    EXPECT_FALSE(server->is_open()) << c.what;
    EXPECT_FALSE(client.value()->is_open()) << c.what;
    EXPECT_FALSE(server->Send("answer").ok()) << c.what;
  }
}

// A plain client of TLS, as OpenSSL's s_client is one.
struct Stranger {
  explicit Stranger(int most_version = TLS1_3_VERSION) {
    SSL_CTX_set_min_proto_version(context.get(), 0);
    SSL_CTX_set_max_proto_version(context.get(), most_version);
    ssl.reset(SSL_new(context.get()));
    SSL_set_security_level(ssl.get(), 0);  // old versions are of a lower one
    SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  }
  std::string Said() {
    char* bytes = nullptr;
    const auto size = BIO_get_mem_data(SSL_get_wbio(ssl.get()), &bytes);
    std::string said(bytes, static_cast<size_t>(size));
    static_cast<void>(BIO_reset(SSL_get_wbio(ssl.get())));
    return said;
  }
  std::unique_ptr<SSL_CTX, openssl::FreeWith<SSL_CTX_free>> context{SSL_CTX_new(TLS_method())};
  std::unique_ptr<SSL, openssl::FreeWith<SSL_free>> ssl;
};

TEST(PskChannel, AClientWithoutAKeyIsRefused) {
  for (const auto& [version, why] :
       {std::pair(TLS1_VERSION, "unsupported protocol"),
        std::pair(TLS1_1_VERSION, "unsupported protocol"),
        std::pair(TLS1_2_VERSION, "unsupported protocol"),
        std::pair(TLS1_3_VERSION, "no suitable signature algorithm")}) {
    Stranger stranger(version);
    SSL_connect(stranger.ssl.get());
    const auto server = Server();
    const absl::Status refused = server->Take(stranger.Said());
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnauthenticated);
    EXPECT_TRUE(absl::StrContains(refused.message(), why)) << refused;
    EXPECT_FALSE(server->is_open());
  }
}

// Whoever took the port first has no key, and shows a certificate, be it one of the authority.
TEST(PskChannel, AServerWithoutTheKeyLearnsNothing) {
  const absl::Time now = absl::Now();
  const Authority authority = MakeAuthority("c1", now).value();
  const Identity own = IssueIdentity(authority, {"c1", CoordinatorPeer{}}, now).value();
  Stranger server;
  const auto certificates = openssl::ParseCertificates(own.certificate_pem).value();
  const openssl::Key key = openssl::ParseKey(own.key_pem).value();
  ASSERT_EQ(SSL_use_certificate(server.ssl.get(), certificates[0].get()), 1);
  ASSERT_EQ(SSL_use_PrivateKey(server.ssl.get(), key.get()), 1);
  SSL_set_accept_state(server.ssl.get());
  const auto client = Client("host:a", kKey);
  const std::string hello = client->Give();
  EXPECT_EQ(hello.find(kKey), std::string::npos);
  BIO_write(SSL_get_rbio(server.ssl.get()), hello.data(), static_cast<int>(hello.size()));
  SSL_do_handshake(server.ssl.get());
  const std::string answer = server.Said();
  ASSERT_FALSE(answer.empty());
  EXPECT_EQ(client->Take(answer).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_FALSE(client->is_open());
  EXPECT_FALSE(client->Send("question").ok());
}

TEST(PskChannel, BytesThatCameOneByOneAreTheSame) {
  const auto server = Server();
  const auto client = Client("host:a", kKey);
  for (int turn = 0; turn < 4; ++turn) {
    for (const char c : client->Give()) ASSERT_TRUE(server->Take(absl::string_view(&c, 1)).ok());
    for (const char c : server->Give()) ASSERT_TRUE(client->Take(absl::string_view(&c, 1)).ok());
  }
  EXPECT_TRUE(server->is_open());
  EXPECT_TRUE(client->is_open());
}

TEST(PskChannel, OddBytesEndIt) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 300; ++i) {
    const auto server = Server();
    const auto client = Client("host:a", kKey);
    std::string hello = client->Give();
    const size_t at = random() % hello.size();
    hello[at] = static_cast<char>(hello[at] ^ static_cast<char>(1 + random() % 255));
    if (i % 3 == 0) hello = hello.substr(0, at) + std::string(random() % 64, 'x');
    if (i % 7 == 0) hello = std::string(random() % 2000, static_cast<char>(random()));
    server->Take(hello).IgnoreError();
    EXPECT_FALSE(server->is_open());
  }
}

}  // namespace
}  // namespace muster
