#include "tests/fuzz/rest_wire.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <map>
#include <memory>
#include <utility>

#include "coordinator/service/rest.h"
#include "lib/http/connection.h"
#include "tests/fuzz/fuzz.h"

namespace muster::fuzz {
namespace {

constexpr int kMostRounds = 1000;

// Answers everything about one job, and knows no other.
class Api final : public JobApi {
 public:
  void Submit(std::string id, JobSpec spec, Accepts, const coordinator::Caller&,
              Reply<SubmittedJob> reply) override {
    if (id == "gone") return reply(absl::FailedPreconditionError("it is being deleted"));
    JobInfo job;
    job.id = std::move(id);
    job.spec = std::make_shared<const JobSpec>(std::move(spec));
    reply(SubmittedJob{std::move(job), true});
  }
  void Adopt(std::string folder, std::string id, Accepts, const coordinator::Caller&,
             Reply<AdoptionInfo> reply) override {
    if (folder.empty()) return reply(absl::InvalidArgumentError("folder: is empty"));
    AdoptionInfo info;
    info.folder = std::move(folder);
    info.job = std::move(id);
    if (info.folder == "/gone") info.error = absl::NotFoundError("it holds no manifest");
    reply(std::move(info));
  }
  void FindAdoption(const std::string& adoption, Reply<AdoptionInfo> reply) override {
    if (adoption != "1-1") return reply(absl::NotFoundError("there is no adoption " + adoption));
    reply(AdoptionInfo{.adoption = adoption});
  }
  void Get(const std::string& id, Reply<JobInfo> reply) override { Known(id, std::move(reply)); }
  void List(const JobQuery& query, Reply<JobPage> reply) override {
    Check(query.limit >= 0, "a limit that is none");
    reply(JobPage{{Job("a")}, query.page_token});
  }
  void Cancel(const std::string& id, const coordinator::Caller&, Reply<JobInfo> reply) override {
    Known(id, std::move(reply));
  }
  void Stop(const std::string& id, const coordinator::Caller&, Reply<JobInfo> reply) override {
    Known(id, std::move(reply));
  }
  void Delete(const std::string& id, const coordinator::Caller&, Reply<JobInfo> reply) override {
    Known(id, std::move(reply));
  }
  void Scale(const std::string& id, int32_t workers_min, int32_t workers_max,
             const coordinator::Caller&, Reply<JobInfo> reply) override {
    Check(1 <= workers_min && workers_min <= workers_max, "a number of workers that is none");
    Known(id, std::move(reply));
  }
  void SetQueue(const std::string& id, const QueueChange& change, const coordinator::Caller&,
                Reply<JobInfo> reply) override {
    Check(!change.priority || std::abs(*change.priority) <= kMostPriority,
          "a priority that is none");
    Known(id, std::move(reply));
  }
  void Watch(const std::string& id, std::optional<EventPlace> after, const coordinator::Caller&,
             Reply<bool> reply, std::shared_ptr<JobWatcher> watcher) override {
    if (id != "a") return reply(absl::NotFoundError("there is no job " + id));
    if (after)
      Check(after->term.value() >= 0 && after->seq >= 0, "the place of an event that is none");
    reply(true);
    watcher->OnEvent({.id = "1-1", .seq = 1, .event = "state"});
  }
  void Fingerprints(const std::string&, int64_t from, Reply<JobFingerprints> reply) override {
    Check(from >= 0, "a step that is none");
    reply(JobFingerprints{{{from, 1, "00ff"}}, std::nullopt});
  }
  void Audit(const std::string&, Reply<JobAudit> reply) override { reply(JobAudit{}); }
  void History(const std::string&, const HistoryQuery& query, Reply<HistoryPage> reply) override {
    Check(query.from >= 0 && query.lineage >= 0 && query.limit >= 0, "a step that is none");
    reply(HistoryPage{{{.step = query.from, .lineage = query.lineage}}, std::nullopt});
  }
  void Ledger(const std::string&, LedgerQuery query, Reply<JobLedger> reply) override {
    Check(query.from >= 0 && query.limit >= 0, "a step that is none");
    reply(JobLedger{{{.step = query.from, .lanes = {{.worker = "worker-0"}}}}, std::nullopt});
  }
  void Logs(const std::string&, LogQuery query, Reply<LogTail> reply) override {
    Check(query.tail >= 0, "lines that are none");
    reply(LogTail{query.member + ": x\n"});
  }
  void FollowLogs(const std::string&, FollowQuery query, const coordinator::Caller&,
                  Reply<LogPage> reply) override {
    Check(query.tail >= 0, "lines that are none");
    reply(LogPage{{{query.member, "x"}}, query.after, true});
  }
  void ReadFile(const std::string&, FileQuery query, Reply<FilePart> reply) override {
    reply(FilePart{std::move(query.file), 7});
  }
  void Checkpoints(const std::string&, const std::string& page_token,
                   Reply<SavedCheckpoints> reply) override {
    reply(SavedCheckpoints{{{.checkpoint = page_token}}, page_token});
  }
  void KeepCheckpoint(const std::string& id, const std::string& checkpoint, const std::string& name,
                      const coordinator::Caller&, Reply<SavedCheckpoint> reply) override {
    if (id != "a") return reply(absl::NotFoundError("there is no job " + id));
    SavedCheckpoint saved{.checkpoint = checkpoint};
    saved.name = name;
    reply(std::move(saved));
  }
  void DeleteCheckpoint(const std::string&, const std::string& checkpoint, bool force,
                        const coordinator::Caller&, Reply<SavedCheckpoint> reply) override {
    if (!force) return reply(absl::FailedPreconditionError("it is kept"));
    reply(SavedCheckpoint{.checkpoint = checkpoint});
  }
  void Digest(const std::string&, std::optional<int64_t> step, Reply<JobDigest> reply) override {
    Check(step.value_or(0) >= 0, "a step that is none");
    reply(JobDigest{1, step.value_or(0), "00ff"});
  }

 private:
  static JobInfo Job(const std::string& id) {
    JobInfo job;
    job.id = id;
    return job;
  }
  static void Known(const std::string& id, const Reply<JobInfo>& reply) {
    if (id != "a") return reply(absl::NotFoundError("there is no job " + id));
    reply(Job(id));
  }
};

http::Limits LimitsOf(ServerKind kind) {
  http::Limits limits;
  if (kind == ServerKind::kNarrow) {
    limits.header_bytes = 1024;
    limits.bodies_bytes = 0;
  } else if (kind == ServerKind::kHasty) {
    limits.header_timeout = limits.body_timeout = Duration();
  }
  return limits;
}

std::shared_ptr<http::Core> MakeCore(ServerKind kind) {
  static Api api;
  const auto fine = [] { return absl::OkStatus(); };
  auto router = http::Router::Make(coordinator::RestRoutes(
      api, [] { return std::string("# metrics\n"); }, fine, fine));
  Check(router.ok(), router.status().ToString());
  return std::make_shared<http::Core>(*std::move(router),
                                      http::ServerOptions{.limits = LimitsOf(kind)});
}

const std::shared_ptr<http::Core>& CoreOf(ServerKind kind) {
  static auto& cores = *new std::map<ServerKind, std::shared_ptr<http::Core>>;
  std::shared_ptr<http::Core>& core = cores[kind];
  if (core == nullptr) core = MakeCore(kind);
  return core;
}

void RunAll(http::Core& core) {
  do {
    core.io.restart();
  } while (core.io.poll() > 0);
}

// What the server said since; false once it has closed.
bool Take(int fd, std::string& said) {
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t n = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n <= 0) return n < 0;
    said.append(bytes.data(), static_cast<size_t>(n));
  }
}

}  // namespace

std::string AnswersTo(std::string_view bytes, size_t piece, ServerKind kind) {
  const std::shared_ptr<http::Core>& core = CoreOf(kind);
  std::array<int, 2> ends;
  Check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0, "a pair of sockets");
  http::tcp::socket socket(core->io);
  socket.assign(http::tcp::v4(), ends[0]);
  const auto send_some = [&](size_t most) {
    const ssize_t sent =
        send(ends[1], bytes.data(), std::min(most, bytes.size()), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
    return sent > 0;
  };
  if (kind == ServerKind::kHasty) send_some(bytes.size());
  {
    const auto connection = std::make_shared<http::Connection>(core, std::move(socket));
    core->Register(connection);
    connection->Start();
  }
  std::string said;
  RunAll(*core);
  bool open = true;
  if (piece == 0) piece = bytes.size();
  while (open && !bytes.empty()) {
    const bool sent = send_some(piece);
    RunAll(*core);
    open = Take(ends[1], said);
    Check(sent || !open, "the server reads or closes");
  }
  shutdown(ends[1], SHUT_WR);
  RunAll(*core);
  int rounds = 0;
  for (; rounds < kMostRounds && Take(ends[1], said); ++rounds) RunAll(*core);
  Check(rounds < kMostRounds, "the server closes when the client has said all");
  close(ends[1]);
  RunAll(*core);
  Check(core->Count() == 0, "a connection that has ended is gone");
  return said;
}

std::vector<Answer> Split(std::string_view answers) {
  constexpr std::string_view kEnd = "\r\n\r\n", kVersion = "HTTP/1.1 ",
                             kLength = "\r\nContent-Length: ", kClose = "\r\nConnection: close";
  std::vector<Answer> out;
  while (!answers.empty()) {
    Answer answer;
    const size_t end = answers.find(kEnd);
    Check(answers.starts_with(kVersion) && end != std::string_view::npos, "an answer's head");
    answer.head = std::string(answers.substr(0, end));
    std::from_chars(answer.head.data() + kVersion.size(), answer.head.data() + answer.head.size(),
                    answer.status);
    answers.remove_prefix(end + kEnd.size());
    size_t length = answer.status == 100 ? 0 : answers.size();  // a stream ends with the connection
    if (const size_t at = answer.head.find(kLength); at != std::string::npos) {
      length = 0;
      std::from_chars(answer.head.data() + at + kLength.size(),
                      answer.head.data() + answer.head.size(), length);
      if (answers.size() < length || (answers.starts_with(kVersion) && length > 0))
        length = 0;  // the answer to HEAD
    }
    answer.body = std::string(answers.substr(0, length));
    answers.remove_prefix(length);
    const bool closes = answer.head.find(kClose) != std::string::npos;
    Check(!closes || answers.empty(), "nothing follows the last answer");
    out.push_back(std::move(answer));
  }
  return out;
}

}  // namespace muster::fuzz
