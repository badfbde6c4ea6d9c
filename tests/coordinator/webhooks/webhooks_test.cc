// Webhooks between a journal and receivers that do whatever a receiver may do.
#include "coordinator/webhooks/webhooks.h"

#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/webhooks/message.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/base/status.h"
#include "lib/http/server.h"
#include "lib/identity/certificates.h"
#include "lib/identity/identity_source.h"
#include "lib/wire/job_codec.h"
#include "nlohmann/json.hpp"
#include "tests/coordinator/runtime/scripted_member.h"
#include "tests/coordinator/webhooks/rude_receiver.h"

namespace muster::coordinator {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kKey(32, 'k');

JobJournal JobIn(JobPhase phase, const std::string& id) {
  JobJournal job;
  job.id = id;
  job.spec = *Complete(CountingSpec(3));
  job.phase = phase;
  return job;
}

// A store in which a key cannot be read for now, as where a block of its file is damaged: a scan
// gives what comes before, and ends with an error, also where that key was deleted since.
class DamagedKv final : public Kv {
 public:
  explicit DamagedKv(std::unique_ptr<Kv> kv) : kv_(std::move(kv)) {}

  void Damage(const std::string& key) {  // empty: it is whole
    const MutexLock lock(mutex_);
    damaged_ = key;
  }
  absl::StatusOr<std::string> Get(absl::string_view family, absl::string_view key) const override {
    return kv_->Get(family, key);
  }
  absl::Status Write(const Batch& batch) override { return kv_->Write(batch); }
  absl::Status Scan(absl::string_view family, absl::string_view first, absl::string_view last,
                    const Visit& visit) const override {
    std::string damaged;
    {
      const MutexLock lock(mutex_);
      damaged = damaged_;
    }
    const bool reaches_it =
        !damaged.empty() && first <= damaged && (last.empty() || damaged < last);
    bool has_enough = false;
    MUSTER_RETURN_IF_ERROR(
        kv_->Scan(family, first, last, [&](absl::string_view key, absl::string_view value) {
          if (reaches_it && key >= damaged) return false;
          has_enough = !visit(key, value);
          return !has_enough;
        }));
    return reaches_it && !has_enough ? absl::DataLossError("Corruption: block checksum mismatch")
                                     : absl::OkStatus();
  }

 private:
  const std::unique_ptr<Kv> kv_;
  mutable Mutex mutex_;
  std::string damaged_ ABSL_GUARDED_BY(mutex_);
};

class WebhooksTest : public testing::Test {
 protected:
  WebhooksTest() {
    if (mkdtemp(folder_.data()) == nullptr) std::abort();
    WriteSecret("s", absl::StrCat("whsec_", absl::Base64Escape(kKey)));
    OpenTerm();
  }
  ~WebhooksTest() override {
    webhooks_.reset();
    journal_.reset();
    std::filesystem::remove_all(folder_);
  }

  void OpenTerm() {
    journal_.reset();
    auto store =
        std::make_unique<DamagedKv>(OpenRocks(folder_ + "/journal", JournalFamilies()).value());
    store_ = store.get();
    journal_ = *Journal::Open(std::move(store));
    std::vector<std::string> damaged;
    ASSERT_TRUE(journal_->Load(damaged).ok());
  }
  void WriteSecret(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
    chmod((folder_ + "/" + name).c_str(), 0600);
  }
  void WriteFile(const std::vector<std::string>& entries) {
    std::string text = "webhooks:\n";
    for (const std::string& entry : entries) absl::StrAppend(&text, "  - {", entry, "}\n");
    if (entries.empty()) text = "webhooks: []\n";
    // Whole or not at all, as it is read meanwhile.
    std::ofstream(folder_ + "/w.new") << text;
    std::filesystem::rename(folder_ + "/w.new", folder_ + "/w.yaml");
  }
  static std::string Entry(const std::string& name, const std::string& url,
                           const std::string& more = "") {
    return absl::StrCat("name: ", name, ", url: \"", url, "\", secret_file: s", more);
  }
  void Start(std::function<void(WebhooksOptions&)> change = [](WebhooksOptions&) {}) {
    WebhooksOptions options{
        .file = folder_ + "/w.yaml",
        .check_claim =
            [this] {
              const MutexLock lock(mutex_);
              return claim_;
            },
        .limits = {.first_pause = milliseconds(2), .longest_pause = milliseconds(50)},
        .patience = {.connect = seconds(5), .whole = seconds(5)},
        .save_every = milliseconds(10)};
    change(options);
    auto started = Webhooks::Start(*journal_, metrics_, std::move(options));
    ASSERT_TRUE(started.ok()) << started.status();
    webhooks_ = *std::move(started);
  }
  void Write(const std::string& job, JobPhase phase) {
    ASSERT_TRUE(
        journal_->Write({PersistJob{JobIn(phase, job)}}, absl::ToUnixMillis(absl::Now())).ok());
  }
  static void Until(const std::function<bool()>& holds) {
    const Time deadline = RealClock().Now() + seconds(20);
    StopSignal none;
    while (!holds()) {
      ASSERT_LT(RealClock().Now(), deadline);
      none.WaitFor(milliseconds(2));
    }
  }
  double Counted(const char* result) {
    return metrics_.GetCounter("muster_webhook_deliveries_total", result).Value();
  }
  std::map<std::string, OutboxPlace> Cursors() { return ReadCursors(journal_->kv()).value(); }
  std::vector<std::string> Keys() {
    std::vector<std::string> keys;
    const auto found = ScanAll(journal_->kv(), "journal", "outbox/", PrefixEnd("outbox/"));
    for (const auto& [key, value] : found.value()) keys.push_back(key);
    return keys;
  }
  size_t Stored() { return Keys().size(); }
  static std::string What(const Received& request) {
    const auto json = nlohmann::json::parse(request.body);
    return absl::StrCat(std::string(json["data"]["job"]), " ", std::string(json["type"]));
  }
  static std::vector<std::string> What(const RudeReceiver& receiver) {
    std::vector<std::string> what;
    for (const Received& request : receiver.received()) what.push_back(What(request));
    return what;
  }
  static RudeReceiver::Answer Always(const std::string& answer) {
    return [answer](int, const Received&) { return answer; };
  }

  std::string folder_ = testing::TempDir() + "/webhooks-XXXXXX";
  Metrics metrics_{{.role = "coordinator"}, "1"};
  std::unique_ptr<Journal> journal_;
  DamagedKv* store_ = nullptr;  // the journal's
  Mutex mutex_;
  absl::Status claim_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Webhooks> webhooks_;
};

TEST_F(WebhooksTest, TellsInOrderAndSigned) {
  RudeReceiver receiver(Always(RudeReceiver::Status(204)));
  WriteFile({Entry("a", receiver.url())});
  Start();
  Write("x", JobPhase::kQueued);
  Write("x", JobPhase::kRunning);
  Write("x", JobPhase::kDone);
  Until([&] { return Stored() == 0; });
  EXPECT_THAT(What(receiver), ElementsAre("x job.queued", "x job.running", "x job.done"));
  int64_t seq = 0;
  for (const Received& request : receiver.received()) {
    const std::string& id = request.headers.at("webhook-id");
    EXPECT_THAT(id, testing::StartsWith(absl::StrCat(journal_->cluster(), "-",
                                                     journal_->term().value(), "-", ++seq, "-")));
    int64_t time = 0;
    ASSERT_TRUE(absl::SimpleAtoi(request.headers.at("webhook-timestamp"), &time));
    EXPECT_NEAR(static_cast<double>(time), static_cast<double>(absl::ToUnixSeconds(absl::Now())),
                60);
    EXPECT_EQ(request.headers.at("webhook-signature"),
              WebhookSignature({kKey}, id, time, request.body));
    EXPECT_EQ(request.headers.at("content-type"), "application/json");
  }
  EXPECT_EQ(Counted("delivered"), 3);
}

// Each is tried again until it is taken, whatever the receiver does first.
TEST_F(WebhooksTest, TriesAgain) {
  const std::string huge = absl::StrCat("HTTP/1.1 500 x\r\nContent-Length: 100000000\r\n\r\n",
                                        std::string(1 << 20, 'x'));
  const std::vector<std::string> bad = {
      RudeReceiver::Status(500),
      RudeReceiver::Status(503, "Retry-After: 0\r\n"),
      RudeReceiver::Status(503, "Retry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\n"),
      RudeReceiver::Status(307, "Location: http://127.0.0.1:1/\r\n"),
      RudeReceiver::Status(404),
      "",                       // cut
      "HTTP/1.1 20",            // likewise
      "SSH-2.0-OpenSSH\r\n",    // something else
      "HTTP/1.1 100 x\r\n\r\n"  // goes on, and is cut
      "",
      absl::StrCat("HTTP/1.1 500 x\r\nA: ", std::string(1 << 20, 'h'), "\r\n\r\n"),
      huge,
      RudeReceiver::kHangs};
  RudeReceiver receiver([&](int n, const Received&) {
    return n < static_cast<int>(bad.size()) ? bad[static_cast<size_t>(n)]
                                            : RudeReceiver::Status(200);
  });
  WriteFile({Entry("a", receiver.url())});
  Start([](WebhooksOptions& options) { options.patience.whole = milliseconds(300); });
  Write("x", JobPhase::kQueued);
  Until([&] { return Counted("delivered") == 1; });
  const std::vector<Received> received = receiver.received();
  ASSERT_EQ(received.size(), bad.size() + 1);
  for (const Received& request : received) {
    EXPECT_EQ(request.headers.at("webhook-id"), received[0].headers.at("webhook-id"));
    EXPECT_EQ(request.body, received[0].body);
  }
  EXPECT_EQ(Counted("failed"), static_cast<double>(bad.size()));
}

TEST_F(WebhooksTest, AStatusIsAnAnswerWhateverTheBodyIs) {
  const std::vector<std::string> good = {
      "HTTP/1.1 200 x\r\nContent-Length: 10\r\n\r\nshort",
      absl::StrCat("HTTP/1.1 200 x\r\nContent-Length: 1000000\r\n\r\n", std::string(1000000, 'x')),
      "HTTP/1.1 202 x\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n", RudeReceiver::Status(299)};
  RudeReceiver receiver(
      [&](int n, const Received&) { return good[static_cast<size_t>(n) % good.size()]; });
  WriteFile({Entry("a", receiver.url())});
  Start();
  for (size_t i = 0; i < good.size(); ++i) Write(absl::StrCat("x", i), JobPhase::kQueued);
  Until([&] { return Stored() == 0; });
  EXPECT_EQ(Counted("delivered"), static_cast<double>(good.size()));
  EXPECT_EQ(Counted("failed"), 0);
}

TEST_F(WebhooksTest, ARetryAfterIsHeeded) {
  RudeReceiver receiver([](int n, const Received&) {
    return RudeReceiver::Status(n == 0 ? 429 : 200, "Retry-After: 1\r\n");
  });
  WriteFile({Entry("a", receiver.url())});
  Start();
  const Time began = RealClock().Now();
  Write("x", JobPhase::kQueued);
  Until([&] { return Counted("delivered") == 1; });
  EXPECT_GE(RealClock().Now() - began, seconds(1));
}

TEST_F(WebhooksTest, OneThatHangsHoldsUpNoOther) {
  RudeReceiver slow(Always(RudeReceiver::kHangs));
  RudeReceiver quick(Always(RudeReceiver::Status(200)));
  WriteFile({Entry("slow", slow.url()), Entry("quick", quick.url())});
  Start([](WebhooksOptions& options) { options.patience.whole = seconds(600); });
  for (int i = 0; i < 300; ++i) Write(absl::StrCat("j", i), JobPhase::kDone);
  Until([&] { return Counted("delivered") == 300; });
  EXPECT_EQ(Stored(), 300u) << "what one has not had stays";
  EXPECT_EQ(slow.received().size(), 1u);
  webhooks_.reset();  // ends in spite of it
}

TEST_F(WebhooksTest, ANotWantedEventIsNotSent) {
  RudeReceiver ends(Always(RudeReceiver::Status(200)));
  RudeReceiver elsewhere(Always(RudeReceiver::Status(200)));
  WriteFile({Entry("ends", ends.url(), ", events: [job.done, job.failed]"),
             Entry("elsewhere", elsewhere.url(), ", namespaces: [elsewhere]")});
  Start();
  Write("x", JobPhase::kRunning);
  Write("x", JobPhase::kDone);
  Until([&] { return Stored() == 0; });
  EXPECT_THAT(What(ends), ElementsAre("x job.done"));
  EXPECT_TRUE(elsewhere.received().empty());
}

TEST_F(WebhooksTest, TheNextTermSendsWhatWasNotTaken) {
  std::atomic<bool> is_well{false};
  RudeReceiver receiver([&](int, const Received& request) {
    return RudeReceiver::Status(is_well || What(request) == "y job.queued" ? 200 : 500);
  });
  WriteFile({Entry("a", receiver.url())});
  Start();
  Write("x", JobPhase::kQueued);
  Write("y", JobPhase::kQueued);
  Write("x", JobPhase::kDone);
  Until([&] { return Counted("failed") > 0 && Counted("delivered") > 0; });
  webhooks_.reset();
  const size_t before = receiver.received().size();
  OpenTerm();
  is_well = true;
  Start();
  Write("x", JobPhase::kQueued);
  Until([&] { return Stored() == 0; });
  std::vector<std::string> what = What(receiver);
  what.erase(what.begin(), what.begin() + static_cast<std::ptrdiff_t>(before));
  EXPECT_THAT(what, ElementsAre("x job.queued", "y job.queued", "x job.done", "x job.queued"));
  const std::vector<Received> received = receiver.received();
  EXPECT_EQ(received[before].headers.at("webhook-id"), received[0].headers.at("webhook-id"));
  EXPECT_NE(received.back().headers.at("webhook-id"), received[0].headers.at("webhook-id"));
}

TEST_F(WebhooksTest, WhoWantsNothingMoreGetsNothingMore) {
  RudeReceiver gone(Always(RudeReceiver::Status(410)));
  RudeReceiver other(Always(RudeReceiver::Status(200)));
  WriteFile({Entry("gone", gone.url()), Entry("other", other.url())});
  Start();
  Write("x", JobPhase::kQueued);
  Until([&] { return Counted("gone") == 1; });
  Write("x", JobPhase::kDone);
  Until([&] { return Stored() == 0 && other.received().size() == 2; });
  EXPECT_EQ(gone.received().size(), 1u);
  // Its entry is another one now.
  WriteFile({Entry("gone", gone.url() + "?again"), Entry("other", other.url())});
  Until([&] {
    Write("x", JobPhase::kQueued);
    Write("x", JobPhase::kDone);
    return gone.received().size() > 1;
  });
}

TEST_F(WebhooksTest, TheFileIsReadAgain) {
  RudeReceiver first(Always(RudeReceiver::Status(200)));
  RudeReceiver second(Always(RudeReceiver::Status(200)));
  WriteFile({Entry("a", first.url())});
  Start();
  Write("x", JobPhase::kQueued);
  Until([&] { return first.received().size() == 1; });
  std::ofstream(folder_ + "/w.yaml") << "webhooks: [";
  Write("x", JobPhase::kRunning);
  Until([&] { return first.received().size() == 2; });
  WriteFile({Entry("a", first.url()), Entry("b", second.url())});
  Until([&] { return Cursors().contains("b"); });
  Write("x", JobPhase::kDone);
  Until([&] { return first.received().size() == 3 && second.received().size() == 1; });
  EXPECT_THAT(What(second), ElementsAre("x job.done")) << "no more than what comes from then on";
  // Another secret: both sign for a while.
  const std::string next(24, 'n');
  WriteSecret("s", absl::StrCat("whsec_", absl::Base64Escape(next), "\nwhsec_",
                                absl::Base64Escape(kKey), "\n"));
  Until([&] {
    Write("x", JobPhase::kQueued);
    Write("x", JobPhase::kDone);
    const std::vector<Received> received = first.received();
    return absl::StrContains(received.back().headers.at("webhook-signature"), " v1,");
  });
  WriteFile({});
  Until([&] { return Cursors().empty() && Stored() == 0; });
}

TEST_F(WebhooksTest, WhatIsTooMuchIsDroppedAndCounted) {
  std::atomic<bool> is_well{false};
  std::set<std::string> taken;  // once it is well, on the receiver's thread
  RudeReceiver receiver([&](int, const Received& request) {
    if (is_well) taken.insert(What(request));
    return RudeReceiver::Status(is_well ? 200 : 500);
  });
  WriteFile({Entry("a", receiver.url())});
  Start([](WebhooksOptions& options) {
    options.most_kept = 10;
    options.limits.window = 1;
  });
  for (int i = 0; i < 50; ++i) Write(absl::StrCat("j", i), JobPhase::kDone);
  Until([&] { return Counted("dropped") == 40 && Stored() == 10; });
  is_well = true;
  Until([&] { return Stored() == 0; });
  webhooks_.reset();
  std::set<std::string> newest;
  for (int i = 40; i < 50; ++i) newest.insert(absl::StrCat("j", i, " job.done"));
  EXPECT_THAT(taken, testing::IsSupersetOf(newest));
  EXPECT_LE(taken.size(), newest.size() + 1) << "one was in memory already";
}

// A receiver is away; meanwhile one job changes all the time.
TEST_F(WebhooksTest, AJobThatIsLoudCrowdsOutNoOther) {
  std::atomic<bool> is_well{false};
  std::set<std::string> taken;  // once it is well, on the receiver's thread
  RudeReceiver receiver([&](int, const Received& request) {
    if (is_well) taken.insert(What(request));
    return RudeReceiver::Status(is_well ? 200 : 503);
  });
  WriteFile({Entry("a", receiver.url())});
  Start([](WebhooksOptions& options) {
    options.most_kept = 10;
    options.limits.window = 1;  // else what is in memory would be sent, too
  });
  Write("quiet", JobPhase::kDone);
  Write("loud", JobPhase::kFailed);
  for (int i = 0; i < 30; ++i) {
    Write("loud", JobPhase::kRecovering);
    Write("loud", JobPhase::kRunning);
  }
  Write("other", JobPhase::kQueued);
  Until([&] { return Counted("dropped") > 50 && Stored() == 10; });
  is_well = true;
  Until([&] { return Stored() == 0; });
  webhooks_.reset();
  EXPECT_THAT(taken,
              testing::IsSupersetOf({std::string("quiet job.done"), std::string("loud job.failed"),
                                     std::string("other job.queued")}));
}

TEST_F(WebhooksTest, WhatCannotBeReadHoldsUpAndIsSaid) {
  RudeReceiver receiver(Always(RudeReceiver::Status(503)));
  WriteFile({Entry("a", receiver.url())});
  Start([](WebhooksOptions& options) { options.limits.longest_pause = seconds(600); });
  for (int i = 0; i < 5; ++i) Write(absl::StrCat("x", i), JobPhase::kQueued);
  webhooks_.reset();
  const std::vector<std::string> keys = Keys();
  ASSERT_EQ(keys.size(), 5u);
  store_->Damage(keys[2]);
  const auto started = Webhooks::Start(*journal_, metrics_, {.file = folder_ + "/w.yaml"});
  EXPECT_TRUE(absl::IsDataLoss(started.status())) << "as with all else of the journal";

  store_->Damage("");
  RudeReceiver well([&](int n, const Received&) {
    if (n == 0) store_->Damage(keys[2]);
    return RudeReceiver::Status(200);
  });
  WriteFile({Entry("a", well.url())});
  Start([](WebhooksOptions& options) {
    options.limits.window = 1;
    options.unreadable_pause = milliseconds(5);
  });
  Until([&] { return Counted("unreadable") > 3; });
  EXPECT_THAT(What(well), ElementsAre("x0 job.queued", "x1 job.queued"));
  EXPECT_EQ(Cursors().at("a").seq, 3);
  store_->Damage("");
  Until([&] { return Stored() == 0; });
  EXPECT_EQ(What(well).size(), 5u);
}

TEST_F(WebhooksTest, BehindADamagedPartNoMoreThanIsKeptGathers) {
  std::atomic<bool> is_well{false};
  RudeReceiver receiver(
      [&](int, const Received&) { return RudeReceiver::Status(is_well ? 200 : 503); });
  WriteFile({Entry("a", receiver.url())});
  Start([](WebhooksOptions& options) {
    options.most_kept = 10;
    options.limits.window = 1;
    options.unreadable_pause = milliseconds(5);
  });
  for (int i = 0; i < 5; ++i) Write(absl::StrCat("x", i), JobPhase::kQueued);
  store_->Damage(Keys()[2]);
  is_well = true;
  Until([&] { return Counted("unreadable") > 0; });
  for (int i = 0; i < 100; ++i) Write(absl::StrCat("z", i), JobPhase::kDone);
  Until([&] { return Counted("dropped") >= 90; });
  store_->Damage("");
  EXPECT_LE(Stored(), 20u);
  Until([&] { return Stored() == 0; });
  EXPECT_THAT(What(receiver), testing::Contains("z99 job.done")) << "the newest are kept";
}

TEST_F(WebhooksTest, AReplacedCoordinatorSaysNothing) {
  RudeReceiver receiver(Always(RudeReceiver::Status(200)));
  WriteFile({Entry("a", receiver.url())});
  std::atomic<int> looks{0};
  Start([&](WebhooksOptions& options) {
    options.check_claim = [&] {
      ++looks;
      return absl::AbortedError("another coordinator has taken this one's place");
    };
  });
  Write("x", JobPhase::kQueued);
  Until([&] { return looks > 0; });
  webhooks_.reset();
  EXPECT_TRUE(receiver.received().empty());
  EXPECT_EQ(Stored(), 1u) << "should it be the only one again, it goes on from there";
}

TEST_F(WebhooksTest, NobodyKnowsIsNoReasonToBeSilent) {
  RudeReceiver receiver(Always(RudeReceiver::Status(200)));
  WriteFile({Entry("a", receiver.url())});
  {
    const MutexLock lock(mutex_);
    claim_ = absl::UnavailableError("the folder hangs");
  }
  Start();
  Write("x", JobPhase::kQueued);
  Until([&] { return receiver.received().size() == 1; });
}

TEST_F(WebhooksTest, GivesUpInTheEnd) {
  RudeReceiver receiver(Always(RudeReceiver::Status(500)));
  WriteFile({Entry("a", receiver.url())});
  Start([](WebhooksOptions& options) {
    options.limits.give_up_after = milliseconds(1);
    options.limits.least_tries = 3;
  });
  Write("x", JobPhase::kQueued);
  Until([&] { return Counted("given_up") == 1 && Stored() == 0; });
  EXPECT_EQ(receiver.received().size(), 3u);
}

TEST_F(WebhooksTest, ABadFileIsNoStart) {
  WriteFile({Entry("a", "ftp://x")});
  const auto started = Webhooks::Start(*journal_, metrics_, {.file = folder_ + "/w.yaml"});
  EXPECT_THAT(std::string(started.status().message()), HasSubstr("w.yaml:2: webhooks[0].url"));
}

// It could be used once: a cluster that is started again, perhaps by nobody, does not stand still.
TEST_F(WebhooksTest, AFileThatIsDamagedLaterIsNoReasonNotToStart) {
  RudeReceiver receiver(Always(RudeReceiver::Status(200)));
  WriteFile({Entry("a", receiver.url())});
  Start();
  webhooks_.reset();
  std::ofstream(folder_ + "/w.yaml") << "webhooks: [";
  Start();
  Write("x", JobPhase::kQueued);
  EXPECT_EQ(Stored(), 1u);
  WriteFile({Entry("a", receiver.url())});
  Until([&] { return receiver.received().size() == 1; });
  EXPECT_THAT(What(receiver), ElementsAre("x job.queued"));
}

// Over HTTPS: who answers is proven, or nothing is said.
TEST_F(WebhooksTest, OnlyWhoIsTrustedIsTold) {
  const Authority authority = MakeAuthority("c1", absl::Now()).value();
  const Authority stranger = MakeAuthority("c1", absl::Now()).value();
  std::ofstream(folder_ + "/ca.pem") << authority.certificates_pem;
  std::ofstream(folder_ + "/other.pem") << stranger.certificates_pem;
  std::atomic<int> taken{0};
  const auto server =
      http::Server::Start("127.0.0.1:0",
                          {{"POST", "/hook",
                            [&](const http::Request&, const http::Responder& respond) {
                              ++taken;
                              respond.Send({.status = 204});
                            }}},
                          {.credentials = {.identity = IdentitySource::Of(
                                               IssueIdentity(authority, {"c1", CoordinatorPeer{}},
                                                             absl::Now(), {"127.0.0.1"})
                                                   .value())}})
          .value();
  const std::string url = absl::StrCat("https://", server->Address(), "/hook");
  WriteFile({Entry("machine", url), Entry("other", url, ", ca_file: other.pem")});
  Start();
  Write("x", JobPhase::kQueued);
  Until([&] { return Counted("failed") >= 4; });
  EXPECT_EQ(taken, 0);
  webhooks_.reset();
  WriteFile({Entry("good", url, ", ca_file: ca.pem")});
  Start();
  Write("x", JobPhase::kDone);
  Until([&] { return taken == 1; });
}

}  // namespace
}  // namespace muster::coordinator
