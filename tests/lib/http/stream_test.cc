#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "lib/base/mailbox.h"
#include "lib/http/client.h"
#include "lib/http/server.h"
#include "tests/lib/http/raw_client.h"
#include "tests/lib/http/tls_layer.h"

namespace muster::http {
namespace {

using testing::HasSubstr;

constexpr Duration kLong = std::chrono::seconds(30);

// A server whose /events streams come out of a mailbox, with the Last-Event-ID that was asked for.
class StreamTest : public testing::TestWithParam<bool> {
 protected:
  struct Opened {
    std::shared_ptr<EventStream> stream;
    std::string last_event_id;
  };

  void Start(ServerOptions options = {}) {
    options.metrics = &metrics_;
    const Handler open = [this](const Request& request, const Responder& responder) {
      const auto id = request.headers.find("last-event-id");
      opened_.Post({responder.Stream(), id == request.headers.end() ? "" : id->second});
    };
    auto server = Server::Start("127.0.0.1:0",
                                {{"GET", "/events", open, {}, /*streams=*/true}, HealthRoute()},
                                wire_.With(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  Opened TakeOpened() {
    auto opened = opened_.TakeUntil(RealClock().Now() + kLong);
    EXPECT_TRUE(opened.has_value());
    return *std::move(opened);
  }
  std::string Url() const { return wire_.Url(server_->Address()) + "/events"; }
  RawClient Client(int receive_buffer = 0) const {
    return wire_.Client(server_->Address(), receive_buffer);
  }
  double Dropped() { return metrics_.GetCounter("muster_sse_dropped_total").Value(); }

  const EachWire wire_{GetParam()};
  Metrics metrics_{{}, "0.1.0"};
  Mailbox<Opened> opened_;
  std::unique_ptr<Server> server_;
};

INSTANTIATE_TEST_SUITE_P(Server, StreamTest, testing::Bool(), WireName);

TEST_P(StreamTest, EventsArriveInOrderUntilTheClientHasEnough) {
  Start();
  std::thread sender([&] {
    const Opened opened = TakeOpened();
    EXPECT_EQ(opened.last_event_id, "41");
    for (int i = 42; i < 52; ++i)
      EXPECT_TRUE(opened.stream->Send(absl::StrCat(i), "step", absl::StrCat("line\n", i)));
    opened.stream->Close();
    EXPECT_FALSE(opened.stream->Send("52", "step", "after the end"));
  });
  std::vector<std::string> seen;
  const absl::Status status =
      StreamEvents(Url(),
                   [&](const Event& event) {
                     seen.push_back(absl::StrCat(event.id, event.name, event.data));
                     return seen.size() < 10;
                   },
                   {.last_event_id = "41", .trust = wire_.trust()});
  sender.join();
  EXPECT_TRUE(status.ok()) << status;
  ASSERT_EQ(seen.size(), 10u);
  EXPECT_EQ(seen.front(), "42stepline\n42");
  EXPECT_EQ(seen.back(), "51stepline\n51");
}

TEST_P(StreamTest, WhatWasSentBeforeCloseArrivesAndTheClientIsToldOfTheEnd) {
  Start();
  std::thread sender([&] {
    const Opened opened = TakeOpened();
    for (int i = 0; i < 100; ++i) opened.stream->Send(absl::StrCat(i), "e", std::string(1000, 'x'));
  });
  int seen = 0;
  const absl::Status status =
      StreamEvents(Url(), [&](const Event&) { return ++seen > 0; }, {.trust = wire_.trust()});
  sender.join();
  EXPECT_EQ(seen, 100) << "the last handle's end closes the stream after what was sent";
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

TEST_P(StreamTest, AClientThatGoesIsNoticed) {
  Start();
  auto client = std::make_unique<RawClient>(Client());
  ASSERT_TRUE(client->Send(GetText("/events")));
  const Opened opened = TakeOpened();
  EXPECT_THAT(client->ReadUntil("\r\n\r\n"), HasSubstr("Content-Type: text/event-stream"));
  client.reset();
  // Another connection's round trips give the server its turns.
  const Time limit = RealClock().Now() + kLong;
  while (!opened.stream->closed() && RealClock().Now() < limit) {
    ASSERT_TRUE(Get(wire_.Url(server_->Address()) + "/healthz", {.trust = wire_.trust()}).ok());
  }
  EXPECT_TRUE(opened.stream->closed());
  EXPECT_FALSE(opened.stream->Send("1", "e", "d"));
  EXPECT_EQ(Dropped(), 0) << "going is not reading too slowly";
}

TEST_P(StreamTest, AClientThatReadsTooSlowlyIsDroppedAndTheOthersAreNot) {
  ServerOptions options;
  options.limits.stream_queue_bytes = 64 << 10;
  Start(options);
  RawClient slow = Client(4096);
  ASSERT_TRUE(slow.Send(GetText("/events")));
  const Opened to_slow = TakeOpened();
  RawClient quick = Client();
  ASSERT_TRUE(quick.Send(GetText("/events")));
  const Opened to_quick = TakeOpened();
  ASSERT_NE(quick.ReadUntil("\r\n\r\n"), "");
  int sent = 0;
  const std::string text(16 << 10, 'x');
  while (to_slow.stream->Send("1", "e", text) && sent < 10'000) {
    ASSERT_TRUE(to_quick.stream->Send(absl::StrCat(sent), "e", text));
    EXPECT_THAT(quick.ReadUntil("\n\n"), HasSubstr(absl::StrCat("id: ", sent, "\n")));
    ++sent;
  }
  EXPECT_LT(sent, 10'000) << "the queue is bounded";
  EXPECT_TRUE(to_slow.stream->closed());
  EXPECT_FALSE(to_quick.stream->closed());
  EXPECT_EQ(Dropped(), 1);
}

TEST_P(StreamTest, EventsThatManyClientsDoNotTakeAreBoundedInSum) {
  ServerOptions options;
  options.limits.stream_queue_bytes = size_t{1} << 30;
  options.limits.streams_bytes = 256 << 10;
  Start(options);
  const std::string text(16 << 10, 'x');
  std::vector<RawClient> slow;
  std::vector<std::shared_ptr<EventStream>> streams;
  int sent = 0;
  for (int i = 0; i < 3; ++i) {
    slow.push_back(Client(4096));
    ASSERT_TRUE(slow.back().Send(GetText("/events")));
    streams.push_back(TakeOpened().stream);
  }
  while (Dropped() == 0 && sent++ < 2000)
    for (const auto& stream : streams) stream->Send("1", "e", text);
  EXPECT_LT(sent, 2000) << "all of them together are bounded";
  RawClient quick = Client();
  ASSERT_TRUE(quick.Send(GetText("/events")));
  const Opened to_quick = TakeOpened();
  ASSERT_NE(quick.ReadUntil("\r\n\r\n"), "");
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(to_quick.stream->Send(absl::StrCat(i), "e", text)) << "it has little that waits";
    EXPECT_THAT(quick.ReadUntil("\n\n"), HasSubstr(absl::StrCat("id: ", i, "\n")));
  }
}

TEST_P(StreamTest, QuietStreamsHaveHeartbeats) {
  ServerOptions options;
  options.limits.stream_heartbeat = std::chrono::milliseconds(10);
  Start(options);
  RawClient client = Client();
  ASSERT_TRUE(client.Send(GetText("/events")));
  const Opened opened = TakeOpened();
  client.ReadUntil("\r\n\r\n");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.ReadUntil("\n\n"), ":\n\n");
  ASSERT_TRUE(opened.stream->Send("1", "e", "d"));
  EXPECT_THAT(client.ReadUntil("data: d\n\n"), HasSubstr("id: 1\nevent: e\ndata: d\n\n"));
}

TEST_P(StreamTest, ASilentServerIsNoticedByTheClient) {
  Start();
  const absl::Status status =
      StreamEvents(Url(), [](const Event&) { return true; },
                   {.idle_timeout = std::chrono::milliseconds(20), .trust = wire_.trust()});
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
}

TEST_P(StreamTest, StoppingEndsOpenStreams) {
  Start();
  std::vector<Opened> kept;
  std::vector<RawClient> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(Client());
    ASSERT_TRUE(clients.back().Send(GetText("/events")));
    kept.push_back(TakeOpened());
  }
  for (RawClient& client : clients) client.ReadUntil("\r\n\r\n");
  server_.reset();
  for (const Opened& opened : kept) {
    EXPECT_TRUE(opened.stream->closed());
    EXPECT_FALSE(opened.stream->Send("1", "e", "d"));
  }
  for (RawClient& client : clients) EXPECT_EQ(client.ReadToEnd(), "");
}

TEST_P(StreamTest, SendingFromManyThreadsWhileStopping) {
  Start();
  std::vector<RawClient> clients;
  std::vector<std::thread> senders;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(Client());
    ASSERT_TRUE(clients.back().Send(GetText("/events")));
    senders.emplace_back([opened = TakeOpened()] {
      while (opened.stream->Send("1", "e", "d")) {
      }
      EXPECT_TRUE(opened.stream->closed());
    });
  }
  clients[0].ReadUntil("data: d\n\n");
  server_.reset();
  for (std::thread& sender : senders) sender.join();
}

}  // namespace
}  // namespace muster::http
