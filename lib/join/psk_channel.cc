#include "lib/join/psk_channel.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/status.h"
#include "lib/identity/openssl.h"

namespace muster {
namespace {

constexpr char kCipherName[] = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char kCipherId[] = {0x13, 0x01};
constexpr size_t kLongestIdentity = 300;

using Ssl = std::unique_ptr<SSL, openssl::FreeWith<SSL_free>>;
using TlsSession = std::unique_ptr<SSL_SESSION, openssl::FreeWith<SSL_SESSION_free>>;

TlsSession SessionWith(SSL* ssl, const std::string& key) {
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl, kCipherId);
  TlsSession session(SSL_SESSION_new());
  const bool made =
      cipher != nullptr && session != nullptr &&
      SSL_SESSION_set1_master_key(session.get(), reinterpret_cast<const unsigned char*>(key.data()),
                                  key.size()) == 1 &&
      SSL_SESSION_set_cipher(session.get(), cipher) == 1 &&
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) == 1;
  return made ? std::move(session) : nullptr;
}

}  // namespace

struct PskChannel::Tls {
  Ssl ssl;
  BIO* in = nullptr;   // the ssl's own
  BIO* out = nullptr;  // the same
};

struct PskChannel::Callbacks {
  static PskChannel& ChannelOf(SSL* ssl) {
    return *static_cast<PskChannel*>(SSL_get_app_data(ssl));
  }
  // A name that is not known is passed over; without a key the handshake fails, since there is no
  // certificate either.
  static int Find(SSL* ssl, const unsigned char* name, size_t size, SSL_SESSION** session) {
    *session = nullptr;
    if (size > kLongestIdentity) return 1;
    PskChannel& channel = ChannelOf(ssl);
    std::string identity(reinterpret_cast<const char*>(name), size);
    const std::optional<std::string> key = channel.find_key_(identity);
    if (!key || key->empty()) return 1;
    TlsSession made = SessionWith(ssl, *key);
    if (made == nullptr) return 0;
    channel.identity_ = std::move(identity);
    *session = made.release();
    return 1;
  }
  static int Use(SSL* ssl, const EVP_MD* /*digest*/, const unsigned char** name, size_t* size,
                 SSL_SESSION** session) {
    const PskChannel& channel = ChannelOf(ssl);
    TlsSession made = SessionWith(ssl, channel.key_);
    *session = nullptr;
    if (made == nullptr) return 0;
    *name = reinterpret_cast<const unsigned char*>(channel.identity_.data());
    *size = channel.identity_.size();
    *session = made.release();
    return 1;
  }

  // Made once, and kept to the end of the process.
  static SSL_CTX* ContextOf(bool accepts) {
    static SSL_CTX* const accepting = MakeContext(/*accepts=*/true);
    static SSL_CTX* const connecting = MakeContext(/*accepts=*/false);
    return accepts ? accepting : connecting;
  }
  static SSL_CTX* MakeContext(bool accepts) {
    SSL_CTX* const context = SSL_CTX_new(accepts ? TLS_server_method() : TLS_client_method());
    const bool made =
        context != nullptr && SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
        SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
        SSL_CTX_set_ciphersuites(context, kCipherName) == 1 &&
        SSL_CTX_set_num_tickets(context, 0) == 1 && SSL_CTX_set_max_early_data(context, 0) == 1;
    MUSTER_CHECK(made, "(OpenSSL speaks TLS 1.3)");
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET);  // and psk_ke needs an option that is not set
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    // An end that shows a certificate in place of the key is trusted by nobody.
    if (!accepts) SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    if (accepts)
      SSL_CTX_set_psk_find_session_callback(context, Find);
    else
      SSL_CTX_set_psk_use_session_callback(context, Use);
    return context;
  }

  static absl::StatusOr<std::unique_ptr<Tls>> Make(bool accepts) {
    ERR_clear_error();
    auto tls = std::make_unique<Tls>();
    tls->ssl.reset(SSL_new(ContextOf(accepts)));
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    if (tls->ssl == nullptr || tls->in == nullptr || tls->out == nullptr) {
      BIO_free_all(tls->in);
      BIO_free_all(tls->out);
      return openssl::Failed("begin a handshake");
    }
    BIO_set_mem_eof_return(tls->in, -1);  // empty: more may come
    SSL_set_bio(tls->ssl.get(), tls->in, tls->out);
    if (accepts)
      SSL_set_accept_state(tls->ssl.get());
    else
      SSL_set_connect_state(tls->ssl.get());
    return tls;
  }
};

PskChannel::PskChannel(std::unique_ptr<Tls> tls) : tls_(std::move(tls)) {
  SSL_set_app_data(tls_->ssl.get(), this);
}

PskChannel::~PskChannel() = default;

absl::StatusOr<std::unique_ptr<PskChannel>> PskChannel::Connecting(std::string identity,
                                                                   std::string key) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Tls> tls, Callbacks::Make(/*accepts=*/false));
  std::unique_ptr<PskChannel> channel(new PskChannel(std::move(tls)));
  channel->identity_ = std::move(identity);
  channel->key_ = std::move(key);
  MUSTER_RETURN_IF_ERROR(channel->Drive());  // it speaks first
  return channel;
}

absl::StatusOr<std::unique_ptr<PskChannel>> PskChannel::Accepting(FindKey find_key) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Tls> tls, Callbacks::Make(/*accepts=*/true));
  std::unique_ptr<PskChannel> channel(new PskChannel(std::move(tls)));
  channel->find_key_ = std::move(find_key);
  return channel;
}

absl::Status PskChannel::Take(absl::string_view bytes) {
  // A BIO in memory takes all that it is given.
  if (!bytes.empty() && BIO_write(tls_->in, bytes.data(), static_cast<int>(bytes.size())) !=
                            static_cast<int>(bytes.size()))
    return openssl::Failed("keep what came");
  return Drive();
}

absl::Status PskChannel::Drive() {
  SSL* const ssl = tls_->ssl.get();
  const auto waits = [ssl](int result) {
    const int error = SSL_get_error(ssl, result);
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
  };
  ERR_clear_error();
  if (!open_) {
    const int done = SSL_do_handshake(ssl);
    if (done != 1 && waits(done)) return absl::OkStatus();
    if (done != 1)
      return absl::UnauthenticatedError(absl::StrCat("no key is shared: ", openssl::Errors()));
    if (SSL_session_reused(ssl) != 1)
      return absl::UnauthenticatedError("the other end has not shown that it knows the key");
    open_ = true;
  }
  std::array<char, 4096> piece{};
  while (!ended_) {
    size_t size = 0;
    const int read = SSL_read_ex(ssl, piece.data(), piece.size(), &size);
    if (read == 1) {
      received_.append(piece.data(), size);
      continue;
    }
    if (waits(read)) return absl::OkStatus();
    if (SSL_get_error(ssl, read) != SSL_ERROR_ZERO_RETURN)
      return absl::UnauthenticatedError(absl::StrCat("it broke off: ", openssl::Errors()));
    ended_ = true;
  }
  return absl::OkStatus();
}

std::string PskChannel::Give() {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(tls_->out, &bytes);
  std::string given = size > 0 ? std::string(bytes, static_cast<size_t>(size)) : std::string();
  static_cast<void>(BIO_reset(tls_->out));
  return given;
}

std::string PskChannel::Received() { return std::exchange(received_, ""); }

absl::Status PskChannel::Send(absl::string_view bytes) {
  ERR_clear_error();
  size_t sent = 0;
  if (open_ && SSL_write_ex(tls_->ssl.get(), bytes.data(), bytes.size(), &sent) == 1 &&
      sent == bytes.size())
    return absl::OkStatus();
  return openssl::Failed("send");
}

void PskChannel::End() {
  ERR_clear_error();
  if (open_) SSL_shutdown(tls_->ssl.get());
  ERR_clear_error();
}

}  // namespace muster
