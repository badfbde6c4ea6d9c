#include "lib/http/server.h"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/loopback.h"
#include "lib/base/status.h"
#include "lib/http/beast.h"
#include "lib/http/connection.h"
#include "lib/http/router.h"
#include "lib/log/limited_log.h"
#include "lib/log/log.h"

namespace muster::http {
namespace {

constexpr Duration kAcceptPause = std::chrono::milliseconds(100);  // when descriptors have run out

class ServerImpl final : public Server {
 public:
  ServerImpl(std::shared_ptr<Core> core, tcp::acceptor acceptor, std::string address)
      : core_(std::move(core)),
        acceptor_(std::move(acceptor)),
        pause_(acceptor_.get_executor()),
        address_(std::move(address)),
        work_(core_->io.get_executor()) {
    net::post(acceptor_.get_executor(), [this] { Accept(); });
    for (int i = 0; i < core_->options.threads; ++i) {
      threads_.emplace_back([core = core_.get()] { core->io.run(); });
    }
  }

  ~ServerImpl() override {
    net::post(acceptor_.get_executor(), [this] {
      error_code ignored;
      acceptor_.close(ignored);
      pause_.cancel();
    });
    core_->CloseAll();
    work_.reset();
    for (std::thread& thread : threads_) thread.join();
  }

  std::string Address() const override { return address_; }
  int Connections() const override { return core_->Count(); }

 private:
  void Accept() {
    if (!acceptor_.is_open()) return;
    acceptor_.async_accept(net::make_strand(core_->io), [this](error_code ec, tcp::socket socket) {
      if (ec == net::error::operation_aborted) return;
      if (!ec) Welcome(std::move(socket));
      const bool out_of_resources = ec && ec != net::error::connection_aborted;
      out_of_resources ? AcceptLater(ec) : Accept();
    });
  }
  void AcceptLater(error_code why) {
    refused_.Warn("%s: cannot accept a connection: %s", address_, why.message());
    pause_.expires_after(std::chrono::duration_cast<net::steady_timer::duration>(kAcceptPause));
    pause_.async_wait([this](error_code) { Accept(); });
  }
  void Welcome(tcp::socket socket) {
    auto connection = std::make_shared<Connection>(core_, std::move(socket));
    switch (core_->Register(connection)) {
      case Core::Room::kForMore:
        return net::post(connection->executor(), [connection] { connection->Start(); });
      case Core::Room::kToSayNo:
        return net::post(connection->executor(), [connection] { connection->SayNo(); });
      case Core::Room::kNone: return connection->TurnAway();
    }
  }
  const std::shared_ptr<Core> core_;
  tcp::acceptor acceptor_;  // on a strand of its own, as is pause_
  net::steady_timer pause_;
  const std::string address_;
  LimitedLog refused_;  // it lasts as long as strangers hold all descriptors
  net::executor_work_guard<net::io_context::executor_type> work_;
  std::vector<std::thread> threads_;
};

absl::Status ListenError(const std::string& address, const error_code& ec) {
  if (ec == net::error::address_in_use) {
    return absl::AlreadyExistsError(
        absl::StrCat("address ", address, ": the port is in use by another process; ",
                     "stop it, or choose another port (0: any free one)"));
  }
  return absl::UnavailableError(
      absl::StrCat("address ", address, ": cannot listen: ", ec.message()));
}

absl::Status Listen(const std::string& address, tcp::acceptor& acceptor) {
  MUSTER_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(address));
  error_code ec;
  const std::string host = parsed.host == "localhost" ? "127.0.0.1" : parsed.host;
  const tcp::endpoint endpoint(net::ip::make_address(host, ec), parsed.port);
  if (ec) return absl::InvalidArgumentError(absl::StrCat("address ", address, ": ", ec.message()));
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(net::socket_base::max_listen_connections, ec);
  return ec ? ListenError(address, ec) : absl::OkStatus();
}

std::string FormatEndpoint(const tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return absl::StrCat(endpoint.address().is_v6() ? absl::StrCat("[", host, "]") : host, ":",
                      endpoint.port());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const std::string& address,
                                                      std::vector<Route> routes,
                                                      const ServerOptions& options) {
  MUSTER_CHECK(options.threads >= 1, "(threads)");
  const bool streams =
      std::any_of(routes.begin(), routes.end(), [](const Route& r) { return r.streams; });
  MUSTER_ASSIGN_OR_RETURN(Router router, Router::Make(std::move(routes)));
  const bool is_tls = options.credentials.identity != nullptr;
  const bool anywhere = is_tls || options.plaintext_anywhere;
  if (!anywhere) MUSTER_RETURN_IF_ERROR(CheckPlaintextAddress(address));
  auto core = std::make_shared<Core>(std::move(router), options);
  core->loopback_only = IsLoopbackAddress(address);
  if (is_tls) {
    MUSTER_ASSIGN_OR_RETURN(core->tls, ServerTls::Make(options.credentials.identity));
  }
  if (options.metrics != nullptr && streams)
    core->streams_dropped = &options.metrics->GetCounter("muster_sse_dropped_total");
  tcp::acceptor acceptor(net::make_strand(core->io));
  MUSTER_RETURN_IF_ERROR(Listen(address, acceptor));
  error_code ec;
  const std::string in_effect = FormatEndpoint(acceptor.local_endpoint(ec));
  return std::make_unique<ServerImpl>(std::move(core), std::move(acceptor), in_effect);
}

namespace {

Route AskRoute(const char* path, std::function<absl::Status()> ask) {
  return {"GET", path, [ask = std::move(ask)](const Request&, const Responder& responder) {
            const absl::Status status = ask ? ask() : absl::OkStatus();
            if (status.ok()) return responder.Send({.content_type = "text/plain", .body = "ok\n"});
            responder.Send(absl::UnavailableError(status.message()));
          }};
}

}  // namespace

Route MetricsRoute(std::function<std::string()> text) {
  return {"GET", "/metrics", [text = std::move(text)](const Request&, const Responder& responder) {
            responder.Send({.content_type = kMetricsContentType, .body = text()});
          }};
}

Route HealthRoute(std::function<absl::Status()> healthy) {
  return AskRoute("/healthz", std::move(healthy));
}

Route ReadyRoute(std::function<absl::Status()> ready) {
  return AskRoute("/readyz", std::move(ready));
}

}  // namespace muster::http
