// The rows of the table that are said to a coordinator: its methods, its routes and the frames of
// members and agents. Each cell is tried against the real program (docs/identity.md section 6).
#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "coordinator/state/rights.h"
#include "lib/base/exit_codes.h"
#include "lib/http/client.h"
#include "lib/identity/identity_folder.h"
#include "lib/identity/keys.h"
#include "lib/join/join_client.h"
#include "lib/transport/grpc/settings.h"
#include "lib/transport/grpc/tls.h"
#include "lib/wire/message_codec.h"
#include "muster/v1/control.grpc.pb.h"
#include "nlohmann/json.hpp"
#include "tests/coordinator/program.h"
#include "tests/identity/who.h"
#include "tests/support/program.h"

namespace muster::identity {
namespace {

using Json = nlohmann::json;

constexpr char kSpec[] =
    R"({"name":"count","task":"counting","lanes":4,"batch":8,"epochs":2,"reduction":"sum","optimizer":{"kind":"sgd","learning_rate":1}})";
constexpr char kJob[] = "demo";  // of two workers, which wait for each other
constexpr char kRan[] = "ran";   // is done, and has a checkpoint
constexpr char kSaid[] = "a line of worker-0";

// The job that a row is about. What is refused is about one that stays.
enum class About {
  kNone,
  kLives,  // another for each of those who may, as they change it
  kIsOver,
  kOneThatRan,
};

// Who may call what, written down once more than in coordinator/state/rights.h: v viewer,
// s submitter (whose job it is), o operator, a admin, all of the namespace of the job or of all;
// n an operator of another namespace; * everybody, also without a token. And how it goes for those
// who may: over gRPC it always succeeds, over REST with this status.
struct Row {
  const char* verb;
  const char* pattern;
  const char* method;
  const char* may;
  About about = About::kNone;
  const char* body = "";       // of REST; empty: none, or made for each call (BodyOf)
  const char* request = "{}";  // of gRPC, besides the job or host
  int status = 200;
};
constexpr Row kRows[] = {
    {.verb = "POST",
     .pattern = "/v1/jobs",
     .method = "muster.v1.Jobs.Submit",
     .may = "soa",
     .status = 201},
    {.verb = "POST",
     .pattern = "/v1/adoptions",
     .method = "muster.v1.Jobs.Adopt",
     .may = "a",
     .status = 202},
    {"GET", "/v1/adoptions/{adoption}", "muster.v1.Jobs.FindAdoption", "a"},
    {"GET", "/v1/jobs", "muster.v1.Jobs.List", "vsoan"},
    {"GET", "/v1/jobs/{id}", "muster.v1.Jobs.Get", "vsoa", About::kLives},
    {"GET", "/v1/jobs/{id}/events", "muster.v1.Jobs.Watch", "vsoa", About::kOneThatRan},
    {"GET", "/v1/jobs/{id}/fingerprints", "muster.v1.Jobs.Fingerprints", "vsoa",
     About::kOneThatRan},
    {"GET", "/v1/jobs/{id}/audit", "muster.v1.Jobs.Audit", "vsoa", About::kOneThatRan},
    {"GET", "/v1/jobs/{id}/history", "", "vsoa", About::kOneThatRan},
    {"GET", "/v1/jobs/{id}/ledger", "", "vsoa", About::kOneThatRan},
    {"GET", "/v1/jobs/{id}/logs", "muster.v1.Jobs.Logs", "vsoa", About::kOneThatRan},
    {"GET", "/v1/jobs/{id}/logs:follow", "muster.v1.Jobs.FollowLogs", "vsoa", About::kOneThatRan},
    {"GET", "/v1/jobs/{id}/digest", "muster.v1.Jobs.Digest", "vsoa", About::kOneThatRan},
    // It names no file.
    {"GET", "/v1/jobs/{id}/checkpoint", "", "vsoa", About::kOneThatRan, "", "{}", 400},
    {"GET", "/v1/jobs/{id}/checkpoints", "", "vsoa", About::kOneThatRan},
    // "none" is the name of no checkpoint.
    {"PATCH", "/v1/jobs/{id}/checkpoints/{checkpoint}", "", "soa", About::kOneThatRan,
     R"({"name":"mine"})", "{}", 400},
    {"DELETE", "/v1/jobs/{id}/checkpoints/{checkpoint}", "", "soa", About::kOneThatRan, "", "{}",
     400},
    {"PATCH", "/v1/jobs/{id}", "muster.v1.Jobs.SetQueue", "soa", About::kLives, R"({"retries":1})",
     R"({"retries":1})"},
    {"POST", "/v1/jobs/{id}:scale", "muster.v1.Jobs.Scale", "soa", About::kLives,
     R"({"workers":2})", R"({"workers_min":1,"workers_max":2})"},
    {"POST", "/v1/jobs/{id}:stop", "muster.v1.Jobs.Stop", "soa", About::kLives},
    {"POST", "/v1/jobs/{id}:cancel", "muster.v1.Jobs.Cancel", "soa", About::kLives},
    {"DELETE", "/v1/jobs/{id}", "muster.v1.Jobs.Delete", "soa", About::kIsOver},
    {"GET", "/v1/openapi.json", "", "vsoan"},
    {"GET", "/v1/namespaces", "", "vsoan"},
    {"GET", "/v1/namespaces/{name}", "", "vsoa"},
    {"PUT", "/v1/namespaces/{name}", "", "a", About::kNone, R"({"slots":900})"},
    {"GET", "/v1/hosts", "muster.v1.Hosts.List", "oan"},
    {"GET", "/v1/hosts/{name}", "muster.v1.Hosts.Get", "oan"},
    {"POST", "/v1/hosts/{name}:drain", "muster.v1.Hosts.Drain", "a"},
    {"POST", "/v1/hosts/{name}:undrain", "muster.v1.Hosts.Undrain", "a"},
    {"POST", "/v1/hosts/{name}:admit", "", "a", About::kNone, R"({"namespace":"default"})"},
    {"POST", "/v1/hosts/{name}:revoke", "", "a"},
    {.verb = "POST", .pattern = "/v1/certificates", .method = "", .may = "vsoan", .status = 201},
    {"GET", "/v1/authority", "", "oan"},
    // It is one from outside here, which is not changed by these, and says so: AuthorityChangeTest
    // changes one.
    {"POST", "/v1/authority:change", "", "a", About::kNone, "{}", "{}", 409},
    {"POST", "/v1/authority:finish", "", "a", About::kNone, R"({"force":true})", "{}", 409},
    {"GET", "/v1/tokens", "", "a"},
    {"POST", "/v1/tokens", "", "a", About::kNone,
     R"({"user":"eve","role":"viewer","namespace":"default"})", "", 201},
    {"DELETE", "/v1/tokens/{id}", "", "a"},
    {"GET", "/metrics", "", "oan"},
    {"GET", "/healthz", "", "*"},
    {"GET", "/readyz", "", "*"},
};

bool IsOfJob(const Row& row) { return row.about != About::kNone; }

// Which letter a token has, or a certificate that was made with one; 0: none, or none that counts.
char LetterOf(Who who) {
  switch (who) {
    case Who::kViewer: return 'v';
    case Who::kUser:  // the submitter's, by certificate alone
    case Who::kSubmitter: return 's';
    case Who::kOperator: return 'o';
    case Who::kAdmin: return 'a';
    case Who::kOtherNamespace: return 'n';
    default: return 0;
  }
}

bool May(const Row& row, Who who) {
  const std::string may = row.may;
  return may == "*" || (LetterOf(who) != 0 && may.find(LetterOf(who)) != std::string::npos);
}

TEST(CoordinatorRows, AreThereForEachMethodAndEachRoute) {
  std::set<std::string> methods, routes;
  for (const Row& row : kRows) {
    if (*row.method != 0) methods.insert(row.method);
    routes.insert(absl::StrCat(row.verb, " ", row.pattern));
  }
  const google::protobuf::FileDescriptor* file = v1::JobRequest::descriptor()->file();
  for (int s = 0; s < file->service_count(); ++s)
    for (int m = 0; m < file->service(s)->method_count(); ++m) {
      const std::string& name = file->service(s)->method(m)->full_name();
      EXPECT_EQ(methods.erase(name), 1u) << name << " has no row";
    }
  EXPECT_TRUE(methods.empty()) << *methods.begin() << " is no method";
  for (const coordinator::MethodRights& rights : coordinator::kMethods) {
    if (rights.verb.empty()) continue;
    const std::string route =
        absl::StrCat(std::string(rights.verb), " ", std::string(rights.pattern));
    EXPECT_EQ(routes.erase(route), 1u) << route << " has no row";
  }
  EXPECT_TRUE(routes.empty()) << *routes.begin() << " is no route";
}

std::string TemporaryFolder() {
  std::string folder = testing::TempDir() + "identity-XXXXXX";
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  return folder;
}

Json WithoutTimes(Json value) {
  if (value.is_object())
    for (const char* const key : {"seconds", "away_for_seconds", "waits_for"}) value.erase(key);
  if (value.is_structured())
    for (auto& part : value) part = WithoutTimes(part);
  return value;
}

// The first frame of a session says for whom it speaks.
AgentHello HelloOf(const std::string& host, int32_t slots = 512) {
  return {{host, {7, 7}}, {}, host, slots, {}, absl::ToUnixMillis(absl::Now())};
}

// What the rightful one would say, as far as it must say something to be read.
struct Filled {
  const Join& join;  // of the one who says it
  void operator()(AskJob& ask) const { ask = {kJob, join.id.name}; }
  void operator()(Join& said) const { said = join; }
  void operator()(AgentHello& hello) const { hello = HelloOf("alpha"); }
  void operator()(SegmentWritten& written) const { written.segment.file = "part"; }
  void operator()(Measured& measured) const { measured.sums.floats.resize(16); }
  void operator()(ProcessExited& exited) const { exited.name = join.id.name; }
  void operator()(LogLines& lines) const { lines.name = join.id.name; }
  void operator()(SignMember& ask) const {
    ask.process.name = join.id.name;
    ask.public_key = "none";
  }
  template <class Message>
  void operator()(Message&) const {}
};

// A coordinator with a job and tokens of every kind; the agent of a host that has joined, where the
// job is placed; and of its members three processes, each with the certificate that the coordinator
// signed: one that has asked for its job, one that was replaced, and the one that replaced it.
// Their sessions are open all the time.
class CoordinatorTable : public testing::Test {
 protected:
  CoordinatorTable() {
    EXPECT_TRUE(WriteAuthority(folder_ + "/id", certificates_.authority(),
                               TestIdentity(certificates_.authority(), kCoordinatorName))
                    .ok());
    std::ofstream(folder_ + "/secret") << TextOf(run_);
    std::filesystem::permissions(folder_ + "/secret", std::filesystem::perms(0600));
    // Nobody is given up while the table is tried.
    program_ = std::make_unique<coordinator::Program>(
        folder_ + "/dir",
        std::vector<std::string>{"--identity", folder_ + "/id", "--tokens", "--join-listen",
                                 "127.0.0.1:0", "--join-secret-file", folder_ + "/secret",
                                 "--slots", "0", "--lease-ms", "600000"});
    EXPECT_TRUE(program_->listens()) << program_->Said();
    std::getline(std::ifstream(folder_ + "/dir/identity/admin.token"), tokens_[Who::kAdmin]);
    MakeToken(Who::kViewer, UserOf(Who::kViewer), "viewer", "default");
    MakeToken(Who::kSubmitter, UserOf(Who::kSubmitter), "submitter", "default");
    MakeToken(Who::kOperator, UserOf(Who::kOperator), "operator", "default");
    MakeToken(Who::kOtherNamespace, UserOf(Who::kOtherNamespace), "operator", "lab");
    LetJoin("alpha");
    LetJoin("beta");
    for (const char* const verb : {"admit", "revoke"}) {
      const auto done =
          Rest("POST", absl::StrCat("/v1/hosts/gone:", verb), "{}", TokenOf(Who::kAdmin));
      EXPECT_TRUE(done.ok() && done->status == 200) << verb;
    }
    agent_ = SessionOf(HostPeer{"alpha"});
    agent_->Say(FromAgent(HelloOf("alpha")));
    SubmitAs(Who::kSubmitter, kJob, R"({"min":2,"max":2})");
    places_ = PlacesOf(kJob);
    const MemberPeer member = certificates_.member();
    certificates_.PlaceMember(PlacementOfMember(places_, member.name));
    const MemberPeer asker = Sign(places_, "worker-0", {1, 1});
    certificates_.SiblingIs(asker);
    steady_ = SessionOf(asker);
    steady_->Say(ToCoordinator(AskJob{kJob, asker.name}));
    EXPECT_TRUE(steady_->AwaitFrames(1)) << steady_->AwaitEnd();
    replaced_ = LetTakePart(Sign(places_, member.name, kProcessBefore));
    EXPECT_TRUE(replaced_->is_open()) << replaced_->AwaitEnd();
    member_ = LetTakePart(Sign(places_, member.name, member.incarnation));
  }
  ~CoordinatorTable() override {
    for (std::unique_ptr<Attempt>* one : {&agent_, &steady_, &replaced_, &member_}) one->reset();
    program_.reset();
    std::filesystem::remove_all(folder_);
  }

  // What the agent of alpha is told next of this kind.
  template <class Message>
  std::optional<Message> NextTold() {
    while (const std::optional<std::string> header = agent_->Next()) {
      const absl::StatusOr<ToAgent> told = DecodeToAgent(*header);
      EXPECT_TRUE(told.ok()) << told.status();
      if (!told.ok()) break;
      if (const Message* one = std::get_if<Message>(&*told)) return *one;
    }
    ADD_FAILURE() << "nothing more is told to the agent: " << agent_->AwaitEnd();
    return std::nullopt;
  }
  // What it is to run of that job.
  JobProcesses PlacesOf(const std::string& job) {
    while (const std::optional<Wanted> wanted = NextTold<Wanted>())
      for (const JobProcesses& of_job : wanted->jobs)
        if (of_job.job == job) return of_job;
    return {};
  }
  static PlacementNumber PlacementOfMember(const JobProcesses& places, const std::string& name) {
    for (const ProcessWanted& process : places.processes)
      if (process.name == name) return process.placement;
    ADD_FAILURE() << name << " has no place";
    return {};
  }
  // The agent of alpha has a process of that member signed.
  MemberPeer Sign(const JobProcesses& places, const std::string& name, Incarnation process) {
    const MemberPeer who{places.job, name, PlacementOfMember(places, name), process};
    const std::string key = MakeKey().value();
    agent_->Say(
        FromAgent(SignMember{{who.job, name, who.placement, process}, PublicKeyOf(key).value()}));
    const std::optional<MemberSigned> made = NextTold<MemberSigned>();
    const absl::StatusOr<Identity> identity =
        made ? MakeIdentity(made->authority_pem, made->certificate_pem, key)
             : absl::NotFoundError("no answer");
    EXPECT_TRUE(identity.ok()) << identity.status();
    if (!identity.ok()) return who;
    EXPECT_EQ(identity->name, (PeerName{"c1", who}));
    certificates_.Signed(*identity);
    return who;
  }
  // As a worker that has made ready says it: it is let in.
  Join JoinOf(const MemberPeer& member) const {
    Join join;
    join.job = member.job;
    join.start = places_.start;
    join.placement = member.placement;
    join.id = IdOf(member);
    join.node = "host";
    join.address = "127.0.0.1:1";
    join.environment.samples = 16;
    join.environment.tensors = {{"weight", {32}, TensorKind::kParameter}};
    return join;
  }
  std::unique_ptr<Attempt> LetTakePart(const MemberPeer& member) {
    auto session = SessionOf(member);
    session->Say(ToCoordinator(JoinOf(member)));
    for (const Time until = PatienceEnds(); RealClock().Now() < until;)
      if (absl::StrContains(Ask(absl::StrCat("/v1/jobs/", member.job)), ToHex(member.incarnation)))
        return session;
    ADD_FAILURE() << member.name << " takes no part: " << session->AwaitEnd();
    return session;
  }

  std::unique_ptr<Attempt> SessionOf(
      std::variant<CoordinatorPeer, HostPeer, MemberPeer, UserPeer> name) {
    return std::make_unique<Attempt>(TlsTransport(certificates_.Named(std::move(name))),
                                     program_->grpc());
  }
  std::string TokenOf(Who who) const {
    const auto token = tokens_.find(who);
    return token == tokens_.end() ? "" : token->second;
  }

  std::string Url(const std::string& path) const { return "https://" + program_->http() + path; }
  absl::StatusOr<http::Response> Rest(const std::string& verb, const std::string& path,
                                      const std::string& body, const std::string& token) {
    const std::string url = Url(path);
    const http::ClientOptions options{.token = token, .trust = trust_};
    if (verb == "GET") return http::Get(url, options);
    if (verb == "POST") return http::Post(url, body, options);
    if (verb == "PUT") return http::Put(url, body, options);
    if (verb == "PATCH") return http::Patch(url, body, options);
    return http::Delete(url, options);
  }
  void MakeToken(Who who, const std::string& user, const std::string& role,
                 const std::string& scope, int64_t expires_in = 0) {
    Json body = {{"user", user}, {"role", role}, {"namespace", scope}};
    if (expires_in > 0) body["expires_in"] = expires_in;
    const auto made = Rest("POST", "/v1/tokens", body.dump(), TokenOf(Who::kAdmin));
    ASSERT_TRUE(made.ok()) << made.status();
    ASSERT_EQ(made->status, 201) << made->body;
    tokens_[who] = Json::parse(made->body)["token"];
    token_ids_[who] = Json::parse(made->body).value("id", "");
  }
  void AwaitExpired(const std::string& token) {
    for (const Time until = PatienceEnds(); RealClock().Now() < until;)
      if (const auto answer = Rest("GET", "/v1/jobs", "", token);
          answer.ok() && answer->status == 401)
        return;
    ADD_FAILURE() << "a token of a second is of use still";
  }
  JoinToken TokenOfHost(const std::string& host, const std::string& scope = "default") {
    const auto admitted = Rest("POST", absl::StrCat("/v1/hosts/", host, ":admit"),
                               Json{{"namespace", scope}}.dump(), TokenOf(Who::kAdmin));
    EXPECT_TRUE(admitted.ok()) << admitted.status();
    const auto token = ParseJoinToken(Json::parse(admitted->body).value("token", ""));
    EXPECT_TRUE(token.ok()) << admitted->body;
    return *token;
  }
  absl::StatusOr<Identity> JoinAs(const std::string& host, const JoinToken& token,
                                  const std::string& key) {
    return JoinCluster({.address = program_->join(), .token = token, .host = host, .node = host},
                       key, std::chrono::steady_clock::now() + kPatience, {});
  }
  void LetJoin(const std::string& host) {
    host_tokens_[host] = TokenOfHost(host);
    const auto joined = JoinAs(host, host_tokens_[host], MakeKey().value());
    ASSERT_TRUE(joined.ok()) << joined.status();
    certificates_.Signed(*joined);
  }
  // The certificate of a user, made with that token.
  Identity SignedWith(const std::string& token) {
    const std::string key = MakeKey().value();
    const Json body = {{"public_key", absl::Base64Escape(PublicKeyOf(key).value())}};
    const auto made = Rest("POST", "/v1/certificates", body.dump(), token);
    EXPECT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->status, 201) << made->body;
    const Json json = Json::parse(made->body);
    return MakeIdentity(json["authority"], json["certificate"], key).value();
  }
  void SubmitAs(Who who, const std::string& id, const std::string& workers = "1") {
    Json body = {{"id", id}, {"spec", Json::parse(kSpec)}};
    body["spec"]["workers"] = Json::parse(workers);
    const auto made = Rest("POST", "/v1/jobs", body.dump(), TokenOf(who));
    ASSERT_TRUE(made.ok()) << made.status();
    ASSERT_EQ(made->status, 201) << made->body;
  }
  std::string Ask(const std::string& path) {
    const auto answer = Rest("GET", path, "", TokenOf(Who::kAdmin));
    EXPECT_TRUE(answer.ok()) << path << ": " << answer.status();
    return answer.ok() ? answer->body : "";
  }
  // Until the answer has that in it.
  bool AwaitAnswer(const std::string& path, const std::string& part) {
    for (const Time until = PatienceEnds(); RealClock().Now() < until;)
      if (absl::StrContains(Ask(path), part)) return true;
    ADD_FAILURE() << path << " has no " << part << ": " << Ask(path);
    return false;
  }
  // Everything that a call can change.
  std::string Snapshot() {
    std::string all;
    for (const char* const path : {"/v1/jobs", "/v1/hosts", "/v1/tokens", "/v1/namespaces"})
      all += WithoutTimes(Json::parse(Ask(path))).dump() + "\n";
    return all;
  }
  // A job, for rows about one that is over, and one that has run: a real worker runs it, in the
  // place and with the certificate that the agent of alpha got for it.
  void LetOneRun() {
    SubmitAs(Who::kSubmitter, kRan);
    const JobProcesses places = PlacesOf(kRan);
    const MemberPeer worker = Sign(places, "worker-0", {3, 3});
    EXPECT_TRUE(WriteIdentity(folder_ + "/worker", certificates_.Named(worker)).ok());
    agent_->Say(FromAgent(LogLines{.job = kRan,
                                   .start = places.start,
                                   .placement = worker.placement,
                                   .name = worker.name,
                                   .text = absl::StrCat(kSaid, "\n")}));
    muster::Program process({MUSTER_WORKER, "--coordinator", program_->grpc(), "--job", kRan,
                             "--name", worker.name, "--start", absl::StrCat(places.start.value()),
                             "--placement", absl::StrCat(worker.placement.value()), "--identity",
                             folder_ + "/worker", "--lane-count", folder_ + "/lanes"});
    EXPECT_EQ(process.End(), 0) << process.output();
    AwaitAnswer(absl::StrCat("/v1/jobs/", kRan), R"("state":"done")");
    AwaitAnswer(absl::StrCat("/v1/jobs/", kRan, "/logs"), kSaid);
    // What a cluster that is gone has left.
    std::filesystem::copy(absl::StrCat(folder_, "/dir/checkpoints/", kRan), folder_ + "/left",
                          std::filesystem::copy_options::recursive);
    const auto adopted =
        Rest("POST", "/v1/adoptions", BodyOfAdoption("first"), TokenOf(Who::kAdmin));
    ASSERT_TRUE(adopted.ok()) << adopted.status();
    ASSERT_EQ(adopted->status, 202) << adopted->body;
    adoption_ = Json::parse(adopted->body)["adoption"];
    AwaitAnswer(absl::StrCat("/v1/adoptions/", adoption_), R"("state":"done")");
  }
  std::string BodyOfAdoption(const std::string& id) const {
    return Json{{"folder", folder_ + "/left"}, {"id", id}}.dump();
  }
  // The job that a cell is about; `id`: of a new one, where it is.
  std::string JobFor(const Row& row, bool lets_in, const std::string& id) {
    if (row.about == About::kOneThatRan) return kRan;
    if (!lets_in || !IsOfJob(row)) return kJob;
    SubmitAs(Who::kSubmitter, id);
    if (row.about == About::kIsOver) {
      const auto over =
          Rest("POST", absl::StrCat("/v1/jobs/", id, ":cancel"), "", TokenOf(Who::kAdmin));
      EXPECT_TRUE(over.ok() && over->status == 200);
      AwaitAnswer("/v1/jobs/" + id, R"("state":"cancelled")");
    }
    return id;
  }
  void ExpectUndisturbed(const std::string& before, const std::string& row) {
    EXPECT_EQ(Snapshot(), before) << row;
    EXPECT_TRUE(agent_->is_open()) << row << ": " << agent_->AwaitEnd();
    EXPECT_TRUE(steady_->is_open()) << row << ": " << steady_->AwaitEnd();
    EXPECT_TRUE(member_->is_open()) << row << ": " << member_->AwaitEnd();
  }

  const std::string folder_ = TemporaryFolder();
  Certificates certificates_;
  const Trust trust_{certificates_.authority().certificates_pem, "c1"};
  std::unique_ptr<coordinator::Program> program_;
  std::map<Who, std::string> tokens_, token_ids_;
  const JoinToken run_ = MakeJoinToken("");
  std::map<std::string, JoinToken> host_tokens_;
  std::unique_ptr<Attempt> agent_, steady_, replaced_, member_;
  JobProcesses places_;  // of the job, on alpha
  std::string adoption_;
};

// ---- calls of gRPC

bool IsRefusal(const grpc::Status& how, const Row& row, Who who) {
  const bool hides = IsOfJob(row) && who == Who::kOtherNamespace;
  return how.error_code() == grpc::UNAUTHENTICATED || how.error_code() == grpc::UNAVAILABLE ||
         how.error_code() == grpc::PERMISSION_DENIED ||
         (hides && how.error_code() == grpc::NOT_FOUND);
}

// `besides`: fields that make it one that succeeds.
std::string RequestOf(const google::protobuf::MethodDescriptor& method, const std::string& job,
                      const std::string& besides = "{}") {
  google::protobuf::DynamicMessageFactory factory;
  const std::unique_ptr<google::protobuf::Message> request(
      factory.GetPrototype(method.input_type())->New());
  Json json = Json::parse(besides);
  if (method.input_type()->FindFieldByName("id") != nullptr) json["id"] = job;
  if (absl::StartsWith(method.full_name(), "muster.v1.Hosts.") &&
      method.input_type()->FindFieldByName("name") != nullptr)
    json["name"] = "alpha";
  const auto parsed = google::protobuf::util::JsonStringToMessage(json.dump(), request.get());
  EXPECT_TRUE(parsed.ok()) << method.full_name() << ": " << parsed.ToString();
  return request->SerializeAsString();
}

grpc::Status Call(const std::string& address, const std::optional<Identity>& as,
                  const std::string& token, const google::protobuf::MethodDescriptor& method,
                  const std::string& request) {
  const auto channel = grpc::CreateCustomChannel(
      "ipv4:" + address,
      as ? TlsOfConnection(IdentitySource::Of(*as), std::nullopt, std::make_shared<FoundPeer>())
         : grpc::InsecureChannelCredentials(),
      ChannelSettings());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
  if (method.server_streaming()) {
    const auto stub = v1::Jobs::NewStub(channel);
    v1::WatchRequest watch;
    EXPECT_TRUE(watch.ParseFromString(request));
    const auto reader = stub->Watch(&context, watch);
    v1::JobEvent event;
    if (!reader->Read(&event)) return reader->Finish();
    context.TryCancel();
    static_cast<void>(reader->Finish());
    return grpc::Status::OK;
  }
  grpc::GenericStub stub(channel);
  const grpc::Slice slice(request);
  const grpc::ByteBuffer bytes(&slice, 1);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> ended;
  const std::string path = absl::StrCat("/", method.service()->full_name(), "/", method.name());
  stub.UnaryCall(&context, path, {}, &bytes, &response,
                 [&](grpc::Status how) { ended.set_value(std::move(how)); });
  return ended.get_future().get();
}

TEST_F(CoordinatorTable, CallsOfGrpcAreThoseOfUsersWithARightToThem) {
  const PeerName user{"c1", UserPeer{"ada"}};
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  // Whoever is nobody by its certificate has the best token there is.
  const auto token_of = [&](Who who) {
    const bool is_nobody = who == Who::kNobody || who == Who::kExpired ||
                           who == Who::kForeignAuthority || who == Who::kSelfSigned ||
                           who == Who::kOtherCluster;
    return TokenOf(is_nobody ? Who::kAdmin : who);
  };
  const Identity by_certificate = SignedWith(TokenOf(Who::kSubmitter));
  const auto identity_of = [&](Who who) {
    return who == Who::kUser ? by_certificate : certificates_.Of(who, user);
  };
  LetOneRun();
  size_t refused = 0, allowed = 0;
  for (const bool lets_in : {false, true})
    for (const Row& row : kRows) {
      if (*row.method == 0) continue;
      const auto* method = pool->FindMethodByName(row.method);
      ASSERT_NE(method, nullptr) << row.method;
      const std::string before = lets_in ? "" : Snapshot();
      for (const Who who : Everybody()) {
        if (May(row, who) != lets_in) continue;
        std::string job = JobFor(row, lets_in, absl::StrCat("g-", allowed));
        std::string besides = row.request;
        const bool submits = absl::EndsWith(row.method, ".Submit");
        const bool adopts = absl::EndsWith(row.method, ".Adopt");
        if (submits) besides = absl::StrCat(R"({"spec":)", kSpec, "}");
        if (adopts) besides = Json{{"folder", folder_ + "/left"}}.dump();
        if (submits || adopts) job = absl::StrCat("new-", allowed);
        if (absl::EndsWith(row.method, ".FindAdoption"))
          besides = Json{{"adoption", adoption_}}.dump();
        const grpc::Status how = Call(program_->grpc(), identity_of(who), token_of(who), *method,
                                      RequestOf(*method, job, besides));
        EXPECT_TRUE(lets_in ? how.ok() : IsRefusal(how, row, who))
            << NameOf(who) << " calls " << row.method << ": " << how.error_code() << " "
            << how.error_message();
        ++(lets_in ? allowed : refused);
      }
      if (!lets_in) ExpectUndisturbed(before, row.method);
    }
  std::cout << refused << " refused and " << allowed << " allowed cells of calls of gRPC\n";
}

TEST_F(CoordinatorTable, ACertificateOfAUserEndsWithItsToken) {
  const auto* method =
      google::protobuf::DescriptorPool::generated_pool()->FindMethodByName("muster.v1.Jobs.Get");
  const std::string request = RequestOf(*method, kJob);
  const Identity vera = SignedWith(TokenOf(Who::kViewer));
  const Identity ada = SignedWith(TokenOf(Who::kSubmitter));
  EXPECT_EQ(Call(program_->grpc(), vera, "", *method, request).error_code(), grpc::OK);
  const std::string before = Snapshot();
  EXPECT_EQ(Call(program_->grpc(), vera, TokenOf(Who::kSubmitter), *method, request).error_code(),
            grpc::PERMISSION_DENIED)
      << "the token of another user";
  EXPECT_EQ(Call(program_->grpc(), certificates_.Named(HostPeer{"beta"}), TokenOf(Who::kSubmitter),
                 *method, request)
                .error_code(),
            grpc::PERMISSION_DENIED)
      << "a host is no user, whatever token it has";
  ExpectUndisturbed(before, "Jobs.Get");
  const auto gone =
      Rest("DELETE", "/v1/tokens/" + token_ids_[Who::kViewer], "", TokenOf(Who::kAdmin));
  ASSERT_TRUE(gone.ok()) << gone.status();
  ASSERT_EQ(gone->status, 200) << gone->body;
  const grpc::Status refused = Call(program_->grpc(), vera, "", *method, request);
  EXPECT_EQ(refused.error_code(), grpc::UNAUTHENTICATED) << refused.error_message();
  EXPECT_EQ(Call(program_->grpc(), ada, "", *method, request).error_code(), grpc::OK);
}

// As of a token of a second, over REST and gRPC; and who comes later comes in vain.
TEST_F(CoordinatorTable, WhatATokenBeganEndsWhenItExpires) {
  MakeToken(Who::kExpired, "eve", "viewer", "default", /*expires_in=*/2);
  const std::string token = TokenOf(Who::kExpired);
  const Identity eve = SignedWith(token);
  const auto channel = grpc::CreateCustomChannel(
      "ipv4:" + program_->grpc(),
      TlsOfConnection(IdentitySource::Of(eve), std::nullopt, std::make_shared<FoundPeer>()),
      ChannelSettings());
  const auto jobs = v1::Jobs::NewStub(channel);
  grpc::ClientContext context;
  v1::WatchRequest request;
  request.set_id(kJob);
  const auto watch = jobs->Watch(&context, request);
  size_t events = 0;
  const absl::Status over = http::StreamEvents(Url(absl::StrCat("/v1/jobs/", kJob, "/events")),
                                               [&](const http::Event&) { return ++events > 0; },
                                               {.token = token, .trust = trust_});
  EXPECT_TRUE(over.ok() || absl::IsUnavailable(over)) << over;
  EXPECT_GT(events, 0u) << "it had not begun";
  v1::JobEvent event;
  while (watch->Read(&event)) {
  }
  EXPECT_EQ(watch->Finish().error_code(), grpc::UNAUTHENTICATED);
  const auto* method =
      google::protobuf::DescriptorPool::generated_pool()->FindMethodByName("muster.v1.Jobs.Get");
  EXPECT_EQ(Call(program_->grpc(), eve, "", *method, RequestOf(*method, kJob)).error_code(),
            grpc::UNAUTHENTICATED);
  EXPECT_EQ(Rest("GET", "/v1/jobs", "", token)->status, 401);
}

TEST_F(CoordinatorTable, ATokenThatIsTooLongIsNoToken) {
  const std::string before = Snapshot();
  const auto answer = Rest("GET", "/v1/jobs", "", std::string(60'000, 't'));
  EXPECT_TRUE(!answer.ok() || answer->status / 100 == 4) << answer->status;
  const std::string token(size_t{1} << 20, 't');
  const auto* method =
      google::protobuf::DescriptorPool::generated_pool()->FindMethodByName("muster.v1.Jobs.Get");
  const Identity vera = SignedWith(TokenOf(Who::kViewer));
  EXPECT_FALSE(Call(program_->grpc(), vera, token, *method, RequestOf(*method, kJob)).ok());
  ExpectUndisturbed(before, "a long token");
}

// ---- REST

TEST_F(CoordinatorTable, RoutesAreThoseOfUsersWithARightToThem) {
  MakeToken(Who::kExpired, UserOf(Who::kAdmin), "admin", "*", /*expires_in=*/1);
  LetOneRun();
  AwaitExpired(TokenOf(Who::kExpired));
  size_t refused = 0, allowed = 0;
  const std::string public_key = absl::Base64Escape(PublicKeyOf(MakeKey().value()).value());
  const Who columns[] = {Who::kNobody, Who::kExpired,       Who::kForeignAuthority,
                         Who::kViewer, Who::kSubmitter,     Who::kOperator,
                         Who::kAdmin,  Who::kOtherNamespace};
  for (const bool lets_in : {false, true})
    for (const Row& row : kRows) {
      const std::string name = absl::StrCat(row.verb, " ", row.pattern);
      const std::string before = lets_in ? "" : Snapshot();
      for (const Who who : columns) {
        if (May(row, who) != lets_in) continue;
        const std::string job = JobFor(row, lets_in, absl::StrCat("r-", allowed));
        std::string body = row.body;
        if (name == "POST /v1/jobs")
          body = Json{{"id", absl::StrCat("rest-", allowed)}, {"spec", Json::parse(kSpec)}}.dump();
        if (name == "POST /v1/adoptions") body = BodyOfAdoption(absl::StrCat("rest-", allowed));
        if (name == "POST /v1/certificates") body = Json{{"public_key", public_key}}.dump();
        const bool is_token = absl::StrContains(row.pattern, "/tokens/");
        const bool is_host = absl::StrContains(row.pattern, "/hosts/");
        const std::string path =
            absl::StrReplaceAll(row.pattern, {{"{id}", is_token ? token_ids_[Who::kViewer] : job},
                                              {"{adoption}", adoption_},
                                              {"{checkpoint}", "none"},
                                              {"{name}", is_host ? "alpha" : "default"}});
        const std::string token = who == Who::kForeignAuthority
                                      ? "muster-ada-00112233445566778899aabbccddeeff"
                                      : TokenOf(who);
        int status = 0;
        if (absl::EndsWith(row.pattern, "/events")) {
          bool any = false;
          const absl::Status how =
              http::StreamEvents(Url(path), [&](const http::Event&) { return !(any = true); },
                                 {.token = token, .trust = trust_});
          status = any                             ? 200
                   : absl::IsNotFound(how)         ? 404
                   : absl::IsPermissionDenied(how) ? 403
                                                   : 401;
        } else {
          const auto answer = Rest(row.verb, path, body, token);
          ASSERT_TRUE(answer.ok()) << name << ": " << answer.status();
          status = answer->status;
          const bool is_logs = absl::StrContains(row.pattern, "/logs");
          EXPECT_EQ(absl::StrContains(answer->body, kSaid), is_logs && lets_in) << name;
        }
        const bool hides = IsOfJob(row) && who == Who::kOtherNamespace;
        if (lets_in) {
          EXPECT_EQ(status, row.status) << NameOf(who) << " asks for " << name;
        } else if (who == Who::kExpired) {
          EXPECT_EQ(status, 401) << NameOf(who) << " asks for " << name;
        } else if (TokenOf(who).empty()) {
          // Too many wrong tokens of an address are refused with 429.
          EXPECT_TRUE(status == 401 || status == 429)
              << NameOf(who) << ", " << name << ": " << status;
        } else {
          EXPECT_EQ(status, hides ? 404 : 403) << NameOf(who) << " asks for " << name;
        }
        ++(lets_in ? allowed : refused);
      }
      if (!lets_in) ExpectUndisturbed(before, name);
    }
  std::cout << refused << " refused and " << allowed << " allowed cells of routes\n";
}

// ---- frames

// Said by one who may, the session is open until this, which nobody may say there.
ToCoordinator LastOfMember() { return AskJob{kJob, "worker-1"}; }
constexpr char kAfterJoin[] = "asked for its job after it had joined";
// How a session ends that is closed while an answer is on its way: its reason is lost.
constexpr char kCutShort[] = "Cancelled on the server side";
FromAgent LastOfAgent() { return AgentHello{{"somebody", {9, 9}}, {}, "x", 1}; }

// Why the coordinator closes the session of one who talks so. A reason does not overtake an answer
// that is being written at that moment, so it is asked for again.
absl::Status ReasonOf(const std::function<std::unique_ptr<Attempt>()>& connect,
                      const std::function<void(Attempt&)>& talk) {
  absl::Status why;
  for (int tries = 0; tries < 50; ++tries) {
    const auto attempt = connect();
    talk(*attempt);
    why = attempt->AwaitEnd();
    if (!absl::StrContains(why.message(), kCutShort)) break;
  }
  return why;
}

// Why it is told to leave; nothing: it is told something else, or nothing.
std::optional<int> LeavesWith(Attempt& attempt) {
  const std::optional<std::string> header = attempt.Next();
  const auto told = header ? DecodeFromCoordinator(*header)
                           : absl::StatusOr<FromCoordinator>(absl::NotFoundError("nothing"));
  const Leave* const leave = told.ok() ? std::get_if<Leave>(&*told) : nullptr;
  return leave == nullptr ? std::nullopt : std::optional(leave->exit_code);
}

// What it asks to have signed before it knows is refused by itself, which may cut the reason short.
void ExpectIsRevoked(Attempt& attempt, const FromAgent& said) {
  const bool asks = std::holds_alternative<SignMember>(said);
  const absl::Status why = attempt.AwaitEnd();
  EXPECT_TRUE(absl::StrContains(why.message(), "was revoked") ||
              (asks && absl::StrContains(why.message(), kCutShort)))
      << why;
  EXPECT_LE(attempt.frames(), asks ? 1u : 0u);
  while (const std::optional<std::string> header = attempt.Next()) {
    const auto told = DecodeToAgent(*header);
    EXPECT_TRUE(told.ok() && std::holds_alternative<SignRefused>(*told));
  }
}

bool EndsAfterJoin(Attempt& attempt) {
  const absl::Status why = attempt.AwaitEnd();
  return absl::StrContains(why.message(), kAfterJoin) ||
         absl::StrContains(why.message(), kCutShort);
}

constexpr auto kIsGreeting = [](const auto& message) {
  using Message = std::decay_t<decltype(message)>;
  return std::is_same_v<Message, AskJob> || std::is_same_v<Message, Join> ||
         std::is_same_v<Message, AgentHello>;
};

TEST_F(CoordinatorTable, FramesOfMembersAndAgentsAreTheirsAlone) {
  size_t refused = 0, allowed = 0;
  const MemberPeer member = certificates_.member();
  const Join join = JoinOf(member), join_of_evicted = JoinOf(certificates_.evicted());
  // One that was evicted has a name of its own, and says that. So it is told to leave, and what it
  // says besides is not heard: it is still there when it says the last.
  const auto try_evicted = [&](auto message, bool asks, Attempt& attempt, const std::string& name) {
    if (asks) {
      attempt.Say(message);
      EXPECT_EQ(LeavesWith(attempt), kExitReplaced) << name;
    }
    attempt.Say(ToCoordinator(join_of_evicted));
    EXPECT_EQ(LeavesWith(attempt), kExitReplaced) << name;
    if (!asks) attempt.Say(message);
    attempt.Say(LastOfMember());
    EXPECT_TRUE(EndsAfterJoin(attempt)) << name << ": " << attempt.AwaitEnd();
    // A Join again is told the same again, if there was time for it.
    EXPECT_LE(attempt.frames(), 2u) << name;
    while (const std::optional<int> code = LeavesWith(attempt)) EXPECT_EQ(code, kExitReplaced);
  };
  const auto try_kind = [&](auto message, const PeerName& rightful, Who first, bool lets_in) {
    auto of_evicted = message;
    std::visit(Filled{join}, message);
    std::visit(Filled{join_of_evicted}, of_evicted);
    const bool is_agents = std::holds_alternative<HostPeer>(rightful.who);
    const bool greets = std::visit(kIsGreeting, message);
    const bool asks = !is_agents && message.index() == 0;
    const auto talk = [&](Attempt& attempt, const std::string& host) {
      if (is_agents)
        attempt.Say(FromAgent(HelloOf(host)));
      else if (!greets)
        attempt.Say(ToCoordinator(join));
      if (!is_agents || !greets) attempt.Say(message);
    };
    const auto connect = [&](Who who) {
      return std::make_unique<Attempt>(certificates_.TransportOf(who, rightful), program_->grpc());
    };
    const std::string name =
        absl::StrCat(is_agents ? "agent" : "member", " kind ", message.index());
    if (!lets_in) {
      const std::string before = Snapshot();
      std::vector<std::pair<Who, std::unique_ptr<Attempt>>> attempts;
      for (const Who who : Everybody()) {
        if (who == first) continue;
        ++refused;
        if (who == Who::kEvicted && !is_agents) {
          try_evicted(of_evicted, asks, *connect(who), name);
          continue;
        }
        attempts.emplace_back(who, connect(who));
        // One that was revoked says the name that it had, so that nothing else is wrong.
        talk(*attempts.back().second, who == Who::kRevokedHost ? "gone" : "alpha");
      }
      for (const auto& [who, attempt] : attempts) {
        EXPECT_FALSE(attempt->AwaitEnd().ok()) << NameOf(who) << " says " << name;
        if constexpr (std::is_same_v<decltype(message), FromAgent>) {
          if (who == Who::kRevokedHost) {
            ExpectIsRevoked(*attempt, message);
            continue;
          }
        }
        EXPECT_EQ(attempt->frames(), 0u) << NameOf(who) << " is answered: " << name;
      }
      return ExpectUndisturbed(before, name);
    }
    ++allowed;
    if (asks) {
      const auto twin = connect(first);
      talk(*twin, "alpha");
      const std::optional<std::string> header = twin->Next();
      ASSERT_TRUE(header) << name << ": " << twin->AwaitEnd();
      const auto told = DecodeFromCoordinator(*header);
      EXPECT_TRUE(told.ok() && std::holds_alternative<JobIs>(*told)) << name;
      return;
    }
    const absl::Status why = ReasonOf([&] { return connect(first); },
                                      [&](Attempt& twin) {
                                        talk(twin, "alpha");
                                        if (is_agents)
                                          twin.Say(LastOfAgent());
                                        else
                                          twin.Say(LastOfMember());
                                      });
    EXPECT_TRUE(absl::StrContains(why.message(), is_agents ? "AgentHello" : kAfterJoin))
        << name << ": " << why;
  };
  const PeerName as_member{"c1", member}, as_agent{"c1", HostPeer{"alpha"}};
  for (const bool lets_in : {false, true}) {
    ForEachKind<ToCoordinator>(
        [&](ToCoordinator message) { try_kind(message, as_member, Who::kMember, lets_in); });
    ForEachKind<FromAgent>(
        [&](FromAgent message) { try_kind(message, as_agent, Who::kHost, lets_in); });
  }
  // Who is let in as one kind says nothing of the other.
  ForEachKind<ToCoordinator>([&](ToCoordinator message) {
    if (std::visit(kIsGreeting, message)) return;
    std::visit(Filled{join}, message);
    const absl::Status why = ReasonOf([&] { return SessionOf(HostPeer{"beta"}); },
                                      [&](Attempt& host) {
                                        host.Say(FromAgent(HelloOf("beta")));
                                        host.Say(message);
                                      });
    EXPECT_TRUE(absl::StrContains(why.message(), "may not say")) << why;
    ++refused;
  });
  ForEachKind<FromAgent>([&](FromAgent message) {
    if (std::visit(kIsGreeting, message)) return;
    std::visit(Filled{join}, message);
    const absl::Status why = ReasonOf([&] { return SessionOf(member); },
                                      [&](Attempt& own) {
                                        own.Say(ToCoordinator(join));
                                        own.Say(message);
                                      });
    EXPECT_TRUE(absl::StrContains(why.message(), "may not say")) << why;
    ++refused;
  });
  std::cout << refused << " refused and " << allowed << " allowed cells of frames\n";
}

// The session that it had when another process took its place is no better than a new one. Nor is
// the certificate of a place that was taken back.
TEST_F(CoordinatorTable, AProcessThatWasReplacedIsNotHeardAnyMore) {
  const std::string before = Snapshot();
  EXPECT_EQ(LeavesWith(*replaced_), kExitReplaced);
  const Join join = JoinOf(certificates_.evicted());
  ForEachKind<ToCoordinator>([&](ToCoordinator message) {
    if (std::holds_alternative<AskJob>(message)) return;  // the last, below
    std::visit(Filled{join}, message);
    replaced_->Say(message);
  });
  replaced_->Say(LastOfMember());
  EXPECT_TRUE(EndsAfterJoin(*replaced_)) << replaced_->AwaitEnd();
  ExpectUndisturbed(before, "in its old session");

  MemberPeer elsewhere = certificates_.member();
  elsewhere.placement = elsewhere.placement + 1;
  const auto asks = SessionOf(elsewhere);
  asks->Say(ToCoordinator(AskJob{kJob, elsewhere.name}));
  EXPECT_EQ(LeavesWith(*asks), kExitReplaced);
  elsewhere.incarnation = {5, 7};  // the session of the right one would be replaced by its own
  const auto joins = SessionOf(elsewhere);
  joins->Say(ToCoordinator(JoinOf(elsewhere)));
  EXPECT_EQ(LeavesWith(*joins), kExitReplaced);
  ExpectUndisturbed(before, "of another place");
}

// What is refused here ends no session: the host that says it may say it of its own members.
TEST_F(CoordinatorTable, WhatAHostSaysCountsOfTheMembersThatArePlacedThereAlone) {
  const MemberPeer member = certificates_.member();
  const auto beta = SessionOf(HostPeer{"beta"});
  beta->Say(FromAgent(HelloOf("beta", 0)));  // nothing moves there
  ASSERT_TRUE(beta->Next()) << beta->AwaitEnd();
  const std::string logs = absl::StrCat("/v1/jobs/", kJob, "/logs");
  const auto printed = [&](const std::string& text) {
    return FromAgent(LogLines{.job = kJob,
                              .start = places_.start,
                              .placement = member.placement,
                              .name = member.name,
                              .text = text + "\n"});
  };
  const auto ends = [&](Incarnation process) {
    ProcessExited exited;
    exited.job = kJob;
    exited.start = places_.start;
    exited.placement = member.placement;
    exited.name = member.name;
    exited.signal = SIGKILL;
    exited.cause = "killed by SIGKILL";
    exited.gave_up = true;
    exited.lanes = {.incarnation = process, .total = 7};
    return FromAgent(exited);
  };
  const auto sign = [&](Incarnation process) {
    return FromAgent(SignMember{{kJob, member.name, member.placement, process},
                                PublicKeyOf(MakeKey().value()).value()});
  };
  const auto signs_refused = [](Attempt& attempt) -> std::string {
    std::optional<std::string> header = attempt.Next();
    auto told = header ? DecodeToAgent(*header) : absl::NotFoundError("nothing");
    if (told.ok() && std::holds_alternative<AuthorityIs>(*told)) {
      header = attempt.Next();
      told = header ? DecodeToAgent(*header) : absl::NotFoundError("nothing");
    }
    const SignRefused* const refused = told.ok() ? std::get_if<SignRefused>(&*told) : nullptr;
    return refused == nullptr ? "it is not refused" : refused->why;
  };
  AwaitAnswer("/v1/hosts", R"("name":"beta")");
  const std::string before = Snapshot();
  beta->Say(printed("beta says"));
  beta->Say(ends(member.incarnation));
  beta->Say(sign({5, 9}));
  // It is answered after what was said before.
  EXPECT_EQ(signs_refused(*beta), "its agent is not to start it, or not at that place");
  beta->Say(sign(member.incarnation));
  EXPECT_EQ(signs_refused(*beta), "its agent is not to start it, or not at that place");
  EXPECT_TRUE(beta->is_open()) << beta->AwaitEnd();
  ExpectUndisturbed(before, "a host says of a member of another");
  EXPECT_FALSE(absl::StrContains(Ask(logs), "beta says")) << Ask(logs);

  // The incarnation of a process of one job is none of another's, which would take its session.
  SubmitAs(Who::kSubmitter, "second");
  const JobProcesses second = PlacesOf("second");
  const auto in_second = [&](Incarnation process) {
    agent_->Say(
        FromAgent(SignMember{{"second", "worker-0", PlacementOfMember(second, "worker-0"), process},
                             PublicKeyOf(MakeKey().value()).value()}));
  };
  in_second(member.incarnation);
  const auto refused = NextTold<SignRefused>();
  ASSERT_TRUE(refused);
  EXPECT_TRUE(absl::StrContains(refused->why, "of another job")) << refused->why;
  in_second({6, 6});
  EXPECT_TRUE(NextTold<MemberSigned>());

  // The twins.
  EXPECT_TRUE(member_->is_open()) << member_->AwaitEnd();
  agent_->Say(sign({5, 9}));
  EXPECT_TRUE(NextTold<MemberSigned>());
  agent_->Say(printed("alpha says"));
  AwaitAnswer(logs, "alpha says");
  agent_->Say(ends(member.incarnation));
  AwaitAnswer(absl::StrCat("/v1/jobs/", kJob), "killed by SIGKILL");
}

TEST_F(CoordinatorTable, AHostJoinsWithItsOwnTokenAndKeyAlone) {
  const auto code = [&](const std::string& host, const JoinToken& token, const std::string& key) {
    return JoinAs(host, token, key).status().code();
  };
  using enum absl::StatusCode;
  const auto key = [] { return MakeKey().value(); };
  const std::string key_of_alpha = certificates_.Named(HostPeer{"alpha"}).key_pem;
  const JoinToken& alpha = host_tokens_.at("alpha");
  const JoinToken& beta = host_tokens_.at("beta");

  // With the secret of a run as long as there is one namespace.
  EXPECT_EQ(code("free", run_, key()), kOk);
  const JoinToken of_lab = TokenOfHost("nova", "lab"), replaced = TokenOfHost("gone");
  const JoinToken revoked = TokenOfHost("gone");
  const auto done = Rest("POST", "/v1/hosts/gone:revoke", "{}", TokenOf(Who::kAdmin));
  ASSERT_TRUE(done.ok() && done->status == 200);
  JoinToken other_secret = alpha;
  other_secret.secret = beta.secret;
  JoinToken other_name = beta;
  other_name.host = "alpha";

  struct Column {
    const char* who;
    std::string host;
    JoinToken token;
    std::string key;
    absl::StatusCode refused;
  };
  const Column columns[] = {
      {"nobody", "alpha", MakeJoinToken("alpha"), key_of_alpha, kUnauthenticated},
      {"nobody, of a run", "alpha", MakeJoinToken(""), key_of_alpha, kUnauthenticated},
      {"a revoked token", "gone", revoked, key(), kUnauthenticated},
      {"a token that was replaced", "gone", replaced, key(), kUnauthenticated},
      {"a host that nobody admitted", "new", MakeJoinToken("new"), key(), kUnauthenticated},
      {"another host", "alpha", beta, key_of_alpha, kPermissionDenied},
      {"another host under this name", "alpha", other_name, key_of_alpha, kUnauthenticated},
      {"a second key", "alpha", alpha, key(), kAborted},
      {"another namespace", "alpha", of_lab, key_of_alpha, kPermissionDenied},
      {"a run, for a host with a token", "alpha", run_, key_of_alpha, kPermissionDenied},
      {"a run, beside another namespace", "late", run_, key(), kPermissionDenied},
  };
  const std::string before = Snapshot();
  size_t refused = 0;
  for (const Column& column : columns) {
    EXPECT_EQ(code(column.host, column.token, column.key), column.refused) << column.who;
    ++refused;
  }
  // The port asks for no certificate, and takes none. One after the other: it serves few at a time.
  for (const Who who : Everybody()) {
    Attempt attempt(certificates_.TransportOf(who, {"c1", HostPeer{"alpha"}}), program_->join());
    attempt.Say(FromAgent(HelloOf("alpha")));
    EXPECT_FALSE(attempt.AwaitEnd().ok()) << NameOf(who);
    EXPECT_EQ(attempt.frames(), 0u) << NameOf(who);
    ++refused;
  }
  ExpectUndisturbed(before, "JoinHost");

  // The twins.
  EXPECT_EQ(code("alpha", alpha, key_of_alpha), kOk);
  const std::string key_of_nova = key();
  EXPECT_EQ(code("nova", of_lab, key_of_nova), kOk);
  EXPECT_EQ(code("gone", TokenOfHost("gone"), key()), kOk) << "an admin has let it back";
  std::cout << refused << " refused and 4 allowed cells of joining\n";

  // A host of another namespace gets no member of this one.
  const auto nova = JoinAs("nova", of_lab, key_of_nova);
  ASSERT_TRUE(nova.ok()) << nova.status();
  certificates_.Signed(*nova);
  const auto agent = SessionOf(HostPeer{"nova"});
  agent->Say(FromAgent(HelloOf("nova", 4096)));  // more than alpha has free
  const std::optional<std::string> header = agent->Next();
  ASSERT_TRUE(header) << agent->AwaitEnd();
  SubmitAs(Who::kSubmitter, "second");
  EXPECT_EQ(PlacesOf("second").processes.size(), 1u) << "alpha has it";
  const auto told = DecodeToAgent(*header);
  ASSERT_TRUE(told.ok() && std::holds_alternative<Wanted>(*told));
  EXPECT_TRUE(std::get<Wanted>(*told).jobs.empty());
  const std::optional<std::string> trust = agent->Next();
  ASSERT_TRUE(trust) << agent->AwaitEnd();
  const auto second_told = DecodeToAgent(*trust);
  EXPECT_TRUE(second_told.ok() && std::holds_alternative<AuthorityIs>(*second_told));
  EXPECT_EQ(agent->frames(), 2u);
}

}  // namespace
}  // namespace muster::identity
