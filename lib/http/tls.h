// Private to the room: TLS under the HTTP of a connection that a client has made.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/mutex.h"
#include "lib/http/beast.h"
#include "lib/http/server.h"
#include "lib/identity/identity_source.h"

namespace muster::http {

// What a port of TLS shows at each handshake: the identity of that moment. Thread-safe.
class ServerTls {
 public:
  // kInternal, kInvalidArgument: the identity is of no use to OpenSSL.
  static absl::StatusOr<std::unique_ptr<ServerTls>> Make(std::shared_ptr<IdentitySource> own);
  std::shared_ptr<net::ssl::context> Now();

 private:
  ServerTls(std::shared_ptr<IdentitySource> own, std::shared_ptr<const Identity> first,
            std::shared_ptr<net::ssl::context> context)
      : own_(std::move(own)), of_(std::move(first)), context_(std::move(context)) {}

  const std::shared_ptr<IdentitySource> own_;
  Mutex mutex_;
  std::shared_ptr<const Identity> of_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<net::ssl::context> context_ ABSL_GUARDED_BY(mutex_);
};

// The socket beneath TLS. OpenSSL alone would take more than a hundred KiB of a greeting, and words
// about new keys and the like without end.
class BoundedSocket {
 public:
  using executor_type = tcp::socket::executor_type;
  using lowest_layer_type = tcp::socket::lowest_layer_type;

  explicit BoundedSocket(tcp::socket socket) : socket_(std::move(socket)) {}
  executor_type get_executor() { return socket_.get_executor(); }
  lowest_layer_type& lowest_layer() { return socket_.lowest_layer(); }
  tcp::socket& socket() { return socket_; }
  void HadContent() { without_content_ = 0; }
  void EndReading() { ended_ = true; }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler handler) {
    const bool over = ended_ || without_content_ >= kMostTlsWithoutContent;
    // TLS reads nothing where it only wants to be called later.
    if (over && net::buffer_size(buffers) > 0)
      return net::post(get_executor(), [handler = std::move(handler)]() mutable {
        handler(net::error::make_error_code(net::error::no_buffer_space), size_t{0});
      });
    socket_.async_read_some(buffers,
                            [this, handler = std::move(handler)](error_code ec, size_t n) mutable {
                              without_content_ += n;
                              handler(ec, n);
                            });
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler handler) {
    socket_.async_write_some(buffers, std::move(handler));
  }

 private:
  tcp::socket socket_;
  size_t without_content_ = 0;
  bool ended_ = false;
};

// The socket of a client, with TLS on it or without. One read and one write at a time; whoever
// holds it outlives them.
class ClientSocket {
 public:
  using executor_type = tcp::socket::executor_type;

  explicit ClientSocket(tcp::socket socket) : bottom_(std::move(socket)) {}
  executor_type get_executor() { return bottom_.get_executor(); }
  tcp::socket& bottom() { return bottom_.socket(); }
  bool is_tls() const { return tls_.has_value(); }

  // `begun`: its first bytes, which are here already. It is TLS from now on. handler(ec)
  template <class Handler>
  void async_handshake(net::ssl::context& context, net::const_buffer begun, Handler handler) {
    tls_.emplace(bottom_, context);
    tls_->async_handshake(net::ssl::stream_base::server, begun,
                          [this, handler = std::move(handler)](error_code ec, size_t) mutable {
                            bottom_.HadContent();
                            handler(ec);
                          });
  }
  // handler(ec, bytes)
  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler handler) {
    if (!tls_) return bottom_.socket().async_read_some(buffers, std::move(handler));
    tls_->async_read_some(buffers,
                          [this, handler = std::move(handler)](error_code ec, size_t n) mutable {
                            if (n > 0) bottom_.HadContent();
                            handler(ec, n);
                          });
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler handler) {
    if (!tls_) return bottom_.socket().async_write_some(buffers, std::move(handler));
    tls_->async_write_some(buffers, std::move(handler));
  }
  // Of TLS: says that nothing more comes, and waits for no answer to that. handler()
  template <class Handler>
  void async_say_end(Handler handler) {
    bottom_.EndReading();
    tls_->async_shutdown([handler = std::move(handler)](error_code) mutable { handler(); });
  }

 private:
  BoundedSocket bottom_;
  std::optional<net::ssl::stream<BoundedSocket&>> tls_;
};

}  // namespace muster::http
