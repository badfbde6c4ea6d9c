#include "cli/train_run.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/cluster_folder.h"
#include "cli/each_second.h"
#include "cli/follower.h"
#include "cli/format.h"
#include "cli/hosts.h"
#include "cli/job_file.h"
#include "cli/job_history.h"
#include "cli/json_text.h"
#include "cli/meeting.h"
#include "cli/patience.h"
#include "cli/progress.h"
#include "cli/room.h"
#include "cli/run_logs.h"
#include "cli/spec_file.h"
#include "cli/tokens.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/domain/notes.h"
#include "lib/domain/validation.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {
namespace {

using Json = nlohmann::ordered_json;

// Members end by themselves after the job; those that do not within this time are told to.
constexpr Duration kLeaveTime = std::chrono::seconds(5);
// Other hosts end once they have read how the run ended; those that do not are not waited for.
constexpr Duration kHostsLeaveTime = std::chrono::seconds(60);
// A coordinator that is away when the job is to be stopped is waited for so long.
constexpr Duration kStopPatience = std::chrono::seconds(60);

// Where all hosts are to end, the last one is told so long after the first.
constexpr Duration kOthersAreTold = std::chrono::seconds(5);

// Of the names of processes.
constexpr char kWorkerPrefix[] = "worker-";
constexpr char kCoordinatorsWord[] = "";  // in place of the worker that has told a step

Time Now() { return std::chrono::steady_clock::now(); }

class TrainRun {
 public:
  TrainRun(const JobRequest& request, Screen& screen)
      : request_(request), screen_(screen), not_let_in_(After()) {
    if (request.hosts)
      room_.emplace(request.hosts->patience, After(),
                    [this](const std::string& why) { StopWithoutRoom(why); });
    result_.folder = request.folder;
    result_.job.loss = NAN;
  }

  JobResult Run(const ClusterMaker& make_cluster) {
    error_.Update(Begin(make_cluster));
    if (error_.ok()) cluster_->Run();
    follower_.reset();
    hosts_watch_.reset();
    if (error_.ok()) TellMissedFaults();
    TellEarlyEnd();
    EndLogs();
    cluster_.reset();
    return Result();
  }

 private:
  Patience::Timer After() {
    return [this](Duration delay, std::function<void()> call) {
      cluster_->After(delay, std::move(call));
    };
  }

  ClusterOptions Options() const {
    ClusterOptions options{.folder = request_.folder,
                           .metrics_address = request_.metrics_address,
                           .metrics_port = request_.metrics_port,
                           .faults = request_.faults,
                           .faults_source = request_.faults_source,
                           .workers = request_.spec.runtime.workers_max,
                           .servers = request_.spec.runtime.servers,
                           .has_follower = FollowersOf(request_.spec.training) > 0,
                           .has_reader = IsStreamed(request_.spec.training),
                           .slots = MostMembersOf(request_.spec),
                           .bind_cores = request_.bind_cores,
                           .mlflow = request_.mlflow,
                           .lease = request_.lease,
                           .thread_patience = request_.thread_patience,
                           .plugins = request_.plugins};
    if (!request_.hosts) return options;
    options.coordinator = request_.hosts->coordinator;
    options.host = request_.hosts->host;
    options.node = request_.hosts->node;
    options.slots = request_.hosts->slots;
    options.join = request_.hosts->join;
    return options;
  }

  absl::Status Begin(const ClusterMaker& make_cluster) {
    MUSTER_ASSIGN_OR_RETURN(cluster_, make_cluster(Options(), Events()));
    result_.folder = cluster_->folder();
    MUSTER_ASSIGN_OR_RETURN(result_.job.id, JobIdOf(result_.folder, request_.spec, request_.id));
    const std::string& id = result_.job.id;
    screen_.Say(absl::StrCat("job ", id, " in ", result_.folder));
    ShowPast();
    EmitStart(id);
    for (const std::string& note : NotesOn(request_.spec)) {
      notes_.insert(absl::StrCat("note: ", note));
      ShowEvent("note", absl::StrCat("note: ", note), Json::object());
    }
    began_ = Now();
    SayWhatIsLost();
    if (request_.hosts) MUSTER_RETURN_IF_ERROR(Meet(std::nullopt));
    if (request_.shows_logs) FollowLogs();
    if (request_.stop_after) cluster_->After(*request_.stop_after, [this] { OnTimeIsUp(); });
    cluster_->Start();
    if (LeastHosts() == 1) {
      Follow();
    } else {
      AwaitHosts();
    }
    return absl::OkStatus();
  }

  // Of a job that goes on.
  void ShowPast() {
    if (!screen_.shows_chart()) return;
    for (const LossAtStep& past : NewestLosses(HistoryFileOf(result_.folder, result_.job.id))) {
      screen_.AddPast(past.step, past.loss);
      if (past.validation_loss) screen_.AddValidation(past.step, *past.validation_loss);
    }
  }

  // A run on one machine is lost with it anyway, and a pod comes again on another one.
  void SayWhatIsLost() {
    if (!request_.hosts) return;
    const LaunchPlan& plan = request_.hosts->plan;
    const bool stays = plan.hosts_max == 1 && !plan.comes_again;
    if (stays || plan.one_machine || !cluster_->LiesOnOwnDisk()) return;
    const std::string text = absl::StrCat("note: ", LostWithThisHost("the run", result_.folder));
    ShowEvent("note", text, Json::object());
  }

  // The folder may be on another machine, where a look takes long.
  void FollowLogs() {
    logs_ = std::make_unique<RunLogs>(result_.folder, result_.job.id);
    logs_watch_ = std::make_unique<EachSecond>([this] {
      if (log_lines_.Read(*logs_)) cluster_->Post([this] { ShowLogLines(); });
    });
  }

  void ShowLogLines() {
    for (const auto& [member, text] : log_lines_.Take()) ShowLogLine(member, text);
  }

  void EndLogs() {
    logs_watch_.reset();
    if (logs_ == nullptr) return;
    ShowLogLines();
    logs_->Read(/*ends=*/true, [this](const std::string& member, const std::string& text) {
      ShowLogLine(member, text);
    });
  }

  void ShowLogLine(const std::string& member, const std::string& text) {
    screen_.Say(absl::StrCat(Printable(member), " | ", Printable(text)));
    screen_.Emit(Text(Json({{"event", "log"}, {"member", member}, {"line", text}})));
  }

  void Follow() {
    hosts_watch_.reset();
    follower_ = std::make_unique<Follower>(
        Rest(), result_.job.id, ToJson(request_.spec), request_.accept,
        [this](std::function<void()> call) { cluster_->Post(std::move(call)); },
        FollowerEvents{
            .on_job = [this](const JobAnswer& job) { OnJob(job); },
            .on_refused =
                [this](const absl::Status& why) {
                  const bool is_token =
                      absl::IsUnauthenticated(why) || absl::IsPermissionDenied(why);
                  GiveUp(is_token ? NotLetIn(why) : why);
                },
            .on_not_let_in = [this](const absl::Status& why) { OnNotLetIn(why); },
            .on_event = [this](const EventAnswer& event) { OnEvent(event); },
            .on_over = [this](const JobAnswer& job,
                              const std::vector<StepFingerprint>& list) { OnOver(job, list); }});
  }

  // As the first admin of the cluster in our folder.
  RestClient Rest() const {
    const std::string url = cluster_->url();
    if (!IsAskedForToken()) return RestClient(url);
    return RestClient(
        url,
        [url, folder = result_.folder]() -> absl::StatusOr<std::string> {
          MUSTER_ASSIGN_OR_RETURN(std::string token, FindToken({}, folder, url));
          if (token.empty()) return absl::UnavailableError("the coordinator begins");
          return token;
        },
        cluster_->trust());
  }

  bool IsAskedForToken() const { return !cluster_->trust().authority_pem.empty(); }

  // It makes one before it listens, unless it has made one before.
  absl::Status CheckHasToken() const {
    if (!IsAskedForToken()) return absl::OkStatus();
    MUSTER_ASSIGN_OR_RETURN(const std::string token,
                            FindToken({}, result_.folder, cluster_->url()));
    if (!token.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        result_.folder,
        "/store/identity/admin.token is gone, or no file that this user may read; with "
        "it the coordinator of this folder is asked: put the token of an admin there"));
  }

  int LeastHosts() const { return request_.hosts ? request_.hosts->plan.hosts_min : 1; }

  // Where the other hosts find us, and how the run ended.
  absl::Status Meet(std::optional<int> exit_code) {
    return WriteMeeting(result_.folder, {.coordinator = KnownTo(cluster_->coordinator()),
                                         .join = KnownTo(cluster_->join()),
                                         .run_id = request_.hosts->plan.run_id,
                                         .exit_code = exit_code});
  }

  // An address of ours, as it is told to others.
  std::string KnownTo(const std::string& address) const {
    const std::string& name = request_.hosts->known_as;
    return name.empty() || address.empty() ? address : name + address.substr(address.rfind(':'));
  }

  // `on_hosts` gets those that are there, this one among them.
  void WatchHosts(std::function<void(const std::vector<HostAnswer>&)> on_hosts) {
    hosts_watch_ =
        std::make_unique<EachSecond>([this, rest = Rest(), on_hosts = std::move(on_hosts)] {
          absl::StatusOr<HostList> list = AllHosts(rest);
          if (!list.ok()) return;  // the coordinator is being started
          std::erase_if(list->hosts, [](const HostAnswer& host) { return !host.up; });
          cluster_->Post([on_hosts, hosts = std::move(list->hosts)] { on_hosts(hosts); });
        });
  }

  // A job that was begun with fewer would wait in the queue for those that are still to come, or
  // begin small.
  void AwaitHosts() {
    screen_.Say(
        absl::StrCat("waiting for ", Plural(LeastHosts(), "host"), ", this one among them"));
    WatchHosts([this](const std::vector<HostAnswer>& hosts) {
      if (follower_ != nullptr || stopping_) return;
      present_.clear();
      for (const HostAnswer& host : hosts) present_.push_back(host.name);
      if (static_cast<int>(hosts.size()) < LeastHosts()) return;
      screen_.Say(absl::StrCat(Plural(static_cast<int64_t>(hosts.size()), "host"), " are there"));
      if (request_.hosts->on_enough) request_.hosts->on_enough();
      Follow();
    });
    cluster_->After(request_.hosts->patience, [this] {
      if (follower_ != nullptr || stopping_) return;
      GiveUp(absl::CancelledError(absl::StrCat(
          "of at least ", Plural(LeastHosts(), "host"), " only ", present_.size(),
          present_.size() == 1 ? " has" : " have", " joined within ",
          HowLong(Seconds(request_.hosts->patience)), MissingHosts(request_.hosts->plan, present_),
          ": look at what they print, and see that all have the same folder ", result_.folder,
          "; --join-timeout waits longer")));
    });
  }

  ClusterEvents Events() {
    return {
        .on_start = [this](const ProcessStart& start) { OnStart(start); },
        .on_exit = [this](const ProcessExit& exit) { OnExit(exit); },
        .on_report = [this](const ProcessReport& report) { OnReport(report); },
        .on_fault = [this](const std::string& text) { ShowEvent("fault", text, Json::object()); },
        .on_coordinator = [this](bool up) { OnCoordinator(up); },
        .on_no_coordinator = [this](const std::string& why) { OnNotHeard(why); },
        .on_interrupt = [this](int signal) { OnInterrupt(signal); },
        .on_stopped = [this] { cluster_->Quit(); }};
  }

  void ShowEvent(const std::string& event, const std::string& text, Json object) {
    screen_.Say(text);
    if (!screen_.json()) return;
    Json all = {{"event", event}, {"text", text}};
    all.update(object);
    screen_.Emit(Text(all));
  }

  void EmitStart(const std::string& id) {
    screen_.Emit(Text(Json(
        {{"event", "start"}, {"job", id}, {"folder", result_.folder}, {"url", cluster_->url()}})));
  }

  void OnStart(const ProcessStart& start) {
    running_.insert(start.process);
    if (absl::StartsWith(start.process, kWorkerPrefix)) tracker_.OnGone(kCoordinatorsWord);
    has_begun_ = has_begun_ || !start.job.empty();
    screen_.Emit(
        Text(Json({{"event", "process_start"}, {"process", start.process}, {"pid", start.pid}})));
  }

  void OnExit(const ProcessExit& exit) {
    running_.erase(exit.process);
    tracker_.OnGone(exit.process);
    if (over_ || stopping_) {
      if (over_) EndOnceAllHaveLeft();
      return;
    }
    if (exit.code != 0 || exit.signal != 0) Disturbed(0);
    // The coordinator hears of members and decides; of its own end nobody hears but us. Why is said
    // at the end.
    if (exit.given_up && exit.is_coordinator) {
      EmitExit(exit);
      return GiveUp(CoordinatorError(exit));
    }
    TellExit(exit);
    if (!exit.given_up) return;
    // Where the process says what is wrong, that is why the job ends, and is said then.
    if (exit.last_lines.empty() || (exit.signal == 0 && EndsItsJob(exit.code))) return;
    if (!std::exchange(told_last_lines_, true)) screen_.Say(LastLines(exit));
  }

  void TellExit(const ProcessExit& exit) {
    if (IsLeftForNow(exit)) {
      screen_.SayAgain(CauseOfLeaving(exit), exit.text);
    } else {
      screen_.Say(exit.text);
    }
    EmitExit(exit);
  }

  void EmitExit(const ProcessExit& exit) {
    if (!screen_.json()) return;
    Json object = {{"event", "process"},
                   {"text", exit.text},
                   {"process", exit.process},
                   {"code", exit.code},
                   {"signal", exit.signal}};
    if (exit.given_up) object["last_lines"] = exit.last_lines;
    screen_.Emit(Text(object));
  }

  std::string LastLines(const ProcessExit& exit) const {
    return absl::StrCat("the last lines of its log (", LogFolder(result_.folder, exit.job), "/",
                        exit.process, ".log):\n", exit.last_lines);
  }

  absl::Status CoordinatorError(const ProcessExit& exit) const {
    const std::string text = WhyGivenUp(exit, result_.folder);
    if (exit.code == kExitBadConfiguration) return absl::InvalidArgumentError(text);
    if (exit.code == kExitBadData) return absl::DataLossError(text);
    return absl::UnavailableError(text);
  }

  void OnReport(const ProcessReport& report) {
    if (report.event == "failpoint")
      ShowEvent(
          "failpoint", absl::StrCat(report.process, " has come to its failpoint"),
          {{"process", report.process}, {"point", Json::parse(report.json).value("point", "")}});
    if (IsNoteOfCoordinator(report)) ShowEvent("note", report.text, Json::object());
    if (report.event == "prepares") OnPrepares(report);
    if (report.event == "stream") EmitStream(report);
    if (report.event == "sample" && !report.text.empty())
      result_.sample = PrintableLines(report.text);
    if (!report.step) return;
    told_by_worker_ = true;
    if (ShowStep(*report.step) && coordinator_down_) ++result_.steps_without_coordinator;
  }

  // The coordinator's word comes later than that of a worker here, and counts where there is none:
  // on a host that has servers alone, or whose workers have left. What they had told is not shown
  // again.
  void OnRecordedStep(const EventAnswer& event) {
    const auto first = running_.lower_bound(kWorkerPrefix);
    if (first != running_.end() && absl::StartsWith(*first, kWorkerPrefix)) return;
    const auto progress = tracker_.Now();
    if (told_by_worker_ && progress && event.step <= progress->step) return;
    told_by_worker_ = false;
    ShowStep({.member = kCoordinatorsWord,
              .step = event.step,
              .epoch = event.epoch,
              .loss = event.loss,
              .samples = event.samples,
              .gradient_norm = event.gradient_norm});
  }

  // False: it was known.
  bool ShowStep(const StepSeen& seen) {
    if (!tracker_.OnStep(seen, Now())) return false;
    if (auto progress = tracker_.Now()) {
      AddDetails(*progress);
      screen_.ShowProgress(*progress, Now());
      EmitStep(*progress);
    }
    return true;
  }

  // Large data is read for minutes, in which nothing else happens. What the first one does all do,
  // so that people are told once; how far one is that prepares its task, each time.
  void OnPrepares(const ProcessReport& report) {
    const std::string text =
        report.text.empty() ? absl::StrCat(report.process, " reads its data and makes its model, ",
                                           "as each worker does first")
                            : absl::StrCat(report.process, " ", Printable(report.text));
    if (!report.text.empty() || !std::exchange(told_prepares_, true)) screen_.Say(text);
    screen_.Emit(Text(Json({{"event", "prepares"}, {"text", text}, {"process", report.process}})));
  }

  void EmitStream(const ProcessReport& report) {
    if (!screen_.json()) return;
    const Json told = Json::parse(report.json, nullptr, /*allow_exceptions=*/false);
    const auto positions = told.find("positions");
    if (positions == told.end() || !positions->is_number_unsigned()) return;
    screen_.Emit(
        Text(Json({{"event", "stream"}, {"process", report.process}, {"positions", *positions}})));
  }

  void AddDetails(Progress& progress) const {
    if (!request_.shows_details) progress.gradient_norm.reset();
    if (request_.shows_details)
      progress.learning_rate = LearningRateAt(request_.spec.training, progress);
  }

  void EmitStep(const Progress& progress) {
    if (!screen_.json()) return;
    Json object = {{"event", "step"},
                   {"step", progress.step},
                   {"epoch", progress.epoch},
                   {"loss", NumberOrNull(progress.loss)},
                   {"samples_per_second", progress.samples_per_second}};
    if (progress.seconds_left >= 0) object["seconds_left"] = progress.seconds_left;
    if (progress.learning_rate) object["learning_rate"] = *progress.learning_rate;
    if (progress.gradient_norm) object["gradient_norm"] = *progress.gradient_norm;
    screen_.Emit(Text(object));
  }

  void OnCoordinator(bool up) {
    coordinator_down_ = !up;
    if (!up) return;
    screen_.NotAgain();
    Disturbed(0);
    if (const absl::Status has = CheckHasToken(); !has.ok() && !over_) GiveUp(has);
  }

  void OnNotHeard(const std::string& why) {
    if (over_ || stopping_) return;
    const std::string text = NotHeard(cluster_->host(), why);
    screen_.SayAgain(why, text);
    if (std::exchange(not_heard_, why) != why)
      screen_.Emit(Text(Json({{"event", "note"}, {"text", text}})));
  }

  void OnJob(const JobAnswer& job) {
    result_.job = job;
    not_let_in_.Ends();
    if (room_) room_->OnState(job.state);
    tracker_.SetTotals(job.steps, job.epochs);
    if (job.steps > 0) cluster_->JobEndsAfter(job.id, job.steps - 1);
    if (std::exchange(accepted_, true)) return;
    result_.steps_before = IsOver(job) ? job.step : GoesOnAfter(job);
    if (IsOver(job)) return OnOverAlready(job);
    if (job.step > 0) screen_.Say(WhereItGoesOn(job));
  }

  // So many steps it does not do again. All members are new: of what the ledger has, only a
  // checkpoint still lives.
  int64_t GoesOnAfter(const JobAnswer& job) const {
    const Resume resume = ResumeOf(job);
    if (job.step == 0 || resume.kind == ResumeKind::kNever) return 0;
    const int64_t from = resume.kind == ResumeKind::kStep ? resume.step : job.checkpoint_step;
    return std::max<int64_t>(0, from);
  }

  // A name has been made a step by whoever took the job.
  Resume ResumeOf(const JobAnswer& job) const {
    const Resume& asked = request_.spec.runtime.resume;
    if (asked.kind != ResumeKind::kNamed) return asked;
    const absl::StatusOr<JobSpec> taken = ParseStoredJob(job.spec, "");
    return taken.ok() ? taken->runtime.resume : Resume{};
  }

  std::string WhereItGoesOn(const JobAnswer& job) const {
    const Resume resume = ResumeOf(job);
    const int64_t from = GoesOnAfter(job);
    if (from > 0) return absl::StrCat("the job goes on after ", Plural(from, "step"));
    return absl::StrCat("the job begins anew",
                        resume.kind == ResumeKind::kNever ? "" : ": it has no checkpoint yet",
                        "; the first ", Plural(job.step, "step"), job.step == 1 ? " is" : " are",
                        " done again");
  }

  void OnOverAlready(const JobAnswer& job) {
    result_.was_over = true;
    result_is_kept_ = HasResultOf(result_.folder, job.state, job.step);
    ShowEvent("state",
              absl::StrCat("the job of this folder is ", job.state,
                           " already; to train anew, give another --dir"),
              {{"state", job.state}});
  }

  // The run was disturbed, now or at the step that an event names. A view that begins after the
  // last step disturbs nothing: the final state is there already.
  void Disturbed(int64_t step) {
    const auto progress = tracker_.Now();
    if (progress) step = std::max(step, progress->step);
    if (result_.job.steps > 0) step = std::min(step, result_.job.steps - 1);
    result_.last_disturbed_step = std::max(result_.last_disturbed_step, step);
  }

  void OnEvent(const EventAnswer& event) {
    not_let_in_.Ends();
    if (event.name == "recovery" || event.name == "view") Disturbed(event.step);
    if (event.validation_loss) screen_.AddValidation(event.step, *event.validation_loss);
    if (event.name == "fingerprint" && request_.cancel_after >= 0 &&
        event.step >= request_.cancel_after)
      follower_->AskCancel();
    NoteTrouble(event);
    if (event.name == "step") return OnRecordedStep(event);
    // The coordinator says them to whoever follows a job that was submitted in another way.
    if (event.name == "note" && notes_.contains(event.text)) return;
    // A log that is to be seen was shown when its process ended.
    if (IsSaidAtOnce(event)) screen_.Say(event.text);
    if (screen_.json()) {
      Json object = {{"event", event.name}};
      object.update(Json::parse(event.json));
      screen_.Emit(Text(object));
    }
  }

  void OnOver(const JobAnswer& job, const std::vector<StepFingerprint>& fingerprints) {
    over_ = true;
    result_.job = job;
    result_.fingerprints = fingerprints;
    // Of a job that ended under an earlier run no worker reports one any more.
    if (result_.sample.empty()) result_.sample = PrintableLines(job.sample);
    if (result_.sample.empty() && result_is_kept_)
      result_.sample = PrintableLines(KeptSample(result_.folder, job.id, job.state, job.step));
    if (!OnlyCoordinatorRuns()) {
      members_may_run_ = true;
      cluster_->After(kLeaveTime, [this] {
        members_may_run_ = false;
        EndOnceAllHaveLeft();
      });
    }
    if (request_.hosts) AwaitOtherHostsEnd();
    EndOnceAllHaveLeft();
  }

  // The coordinator stays until the others know: whom it does not answer waits for it to come back.
  void AwaitOtherHostsEnd() {
    if (const absl::Status told = Meet(ExitCodeOfJob()); !told.ok()) return TellNotTold(told);
    others_run_ = true;
    WatchHosts([this](const std::vector<HostAnswer>& hosts) {
      const std::string self = cluster_->host();
      others_run_ = std::any_of(hosts.begin(), hosts.end(),
                                [&](const HostAnswer& host) { return host.name != self; });
      EndOnceAllHaveLeft();
    });
    cluster_->After(kHostsLeaveTime, [this] {
      others_run_ = false;
      EndOnceAllHaveLeft();
    });
  }

  void TellNotTold(const absl::Status& why) {
    ShowEvent("note",
              absl::StrCat("note: the other hosts are not told that the run is over: ",
                           why.message(), "; they end by themselves, ten minutes later, with 75"),
              Json::object());
  }

  void EndOnceAllHaveLeft() {
    if (!others_run_ && (OnlyCoordinatorRuns() || !members_may_run_)) StopCluster();
  }

  // What keeps checkpoints from being made is told, and told again.
  void NoteTrouble(const EventAnswer& event) {
    const bool is_trouble = event.saves == false;
    if (is_trouble || event.saves == true) trouble_ = is_trouble ? event.text : "";
    went_on_ = went_on_ || !is_trouble;
  }

  bool OnlyCoordinatorRuns() const {
    return running_.empty() || (running_.size() == 1 && running_.contains("coordinator"));
  }

  // After OnTimeIsUp the first signal is what a launcher sends before it kills: the job stops
  // already, and its checkpoint is not to be lost.
  void OnInterrupt(int signal) {
    if (signal == SIGTERM && MayLeave()) return Leave();
    if (signal == SIGTERM && ComesAgain() && !IsUnderWay() && !signalled_ && !stopping_)
      return EndToComeAgain("ended before the job was submitted");
    if (!std::exchange(signalled_, true) && !over_ && !stopping_) {
      if (interrupted_) return screen_.Say("stopping already; press Ctrl-C again to stop at once");
      return StopAfterCheckpoint();
    }
    if (!over_)
      error_.Update(absl::CancelledError(
          "stopped at once; started again it goes on from its newest checkpoint"));
    StopCluster();
    cluster_->Stop();
  }

  // To one of several hosts that is a word about that host, and not about the run.
  bool MayLeave() const {
    if (!room_) return false;
    const bool ends = room_->leaving() || signalled_ || interrupted_ || over_ || stopping_;
    return request_.hosts->plan.hosts_max > 1 && accepted_ && !ends;
  }

  void Leave() {
    ShowEvent("note",
              absl::StrCat("leaving: members that run here hand their work over to other hosts, ",
                           ComesAgain() ? "and the coordinator goes on where this host comes again"
                                        : "and the coordinator stays here until the run is over",
                           "; the same again stops the run after a checkpoint"),
              Json::object());
    cluster_->Leave();
    room_->OnLeave();
    if (ComesAgain()) cluster_->After(kOthersAreTold, [this] { others_were_told_ = true; });
    WatchHosts([this](const std::vector<HostAnswer>& hosts) {
      const bool any_stays = std::any_of(hosts.begin(), hosts.end(), [&](const HostAnswer& host) {
        return !host.draining && host.name != cluster_->host();
      });
      if (others_were_told_ && !interrupted_ && ComesAgain() && any_stays && OnlyCoordinatorRuns())
        return EndToComeAgain("left");
      room_->OnStaying(any_stays);
    });
  }

  // Whoever ends this host starts it again elsewhere, and the others train on until then.
  bool ComesAgain() const {
    return request_.hosts && request_.hosts->plan.comes_again && request_.hosts->plan.hosts_max > 1;
  }

  void EndToComeAgain(const std::string& what) {
    if (over_ || stopping_ || interrupted_) return;
    others_wait_ = true;
    GiveUp(absl::CancelledError(absl::StrCat(what,
                                             ": the other hosts train on and wait for this one, ",
                                             cluster_->host(), ", to be started again")));
  }

  void StopWithoutRoom(const std::string& why) {
    if (interrupted_ || over_ || stopping_) return;
    screen_.Say(why);
    StopAfterCheckpoint();
  }

  // Somebody has taken our token away, or put another one into its place.
  void OnNotLetIn(const absl::Status& why) {
    if (over_ || stopping_ || not_let_in_.lasts()) return;
    const absl::Status told = NotLetIn(why);
    ShowEvent("note", absl::StrCat("warning: ", told.message(), ", within a minute"),
              Json::object());
    not_let_in_.Lasts(kStopPatience, [this, told] {
      if (!over_) GiveUp(told);
    });
  }

  absl::Status NotLetIn(const absl::Status& why) const {
    if (!IsAskedForToken()) return why;
    return absl::FailedPreconditionError(absl::StrCat(
        "the coordinator of this folder does not let us ask (", why.message(),
        "): put the token of an admin into ", result_.folder, "/store/identity/admin.token"));
  }

  void OnTimeIsUp() {
    if (interrupted_ || over_ || stopping_) return;
    screen_.Say("the end of the allocation is near");
    StopAfterCheckpoint();
  }

  void StopAfterCheckpoint() {
    interrupted_ = true;
    if (!IsUnderWay() && (coordinator_down_ || follower_ == nullptr))
      return GiveUp(NothingToSave());
    // The coordinator went on by itself with a job that is to be stopped now.
    if (follower_ == nullptr) Follow();
    screen_.Say(absl::StrCat(
        "stopping after a checkpoint",
        trouble_.empty() ? "" : absl::StrCat(", which is waited for for a minute: ", trouble_),
        "; press Ctrl-C again to stop at once"));
    went_on_ = false;
    follower_->AskStop();
    cluster_->After(kStopPatience, [this] { LookAtTheStop(); });
  }

  // A coordinator that knows the job from an earlier run lets its processes begin before it has
  // answered us.
  bool IsUnderWay() const { return accepted_ || has_begun_; }

  static absl::Status NothingToSave() {
    return absl::CancelledError(
        "stopped before a process of the job has run, so that there was nothing to save; the same "
        "command begins the job, or goes on with it");
  }

  // A checkpoint takes its time. Without a coordinator none is made.
  void LookAtTheStop() {
    if (over_ || stopping_) return;
    if (!IsUnderWay()) return GiveUp(NothingToSave());
    if (!coordinator_down_ && accepted_) {
      const bool goes_on = std::exchange(went_on_, false);
      if (!trouble_.empty() && !goes_on)
        return GiveUp(
            absl::CancelledError(absl::StrCat("the last checkpoint cannot be made: ", trouble_,
                                              "; the steps since the newest one are not saved; "
                                              "started again it goes on from there")));
      cluster_->After(kStopPatience, [this] { LookAtTheStop(); });
      return;
    }
    GiveUp(absl::CancelledError(
        "no coordinator answered when the job was to be stopped: the steps since its newest "
        "checkpoint are not saved; started again it goes on from there"));
  }

  void GiveUp(const absl::Status& why) {
    error_.Update(why);
    StopCluster();
  }

  void StopCluster() {
    if (!std::exchange(stopping_, true)) cluster_->Stop();
  }

  void TellMissedFaults() {
    result_.missed_faults = cluster_->MissedFaults();
    for (const std::string& fault : result_.missed_faults)
      ShowEvent("fault_missed",
                absl::StrCat("warning: this fault of the plan has not happened: ", fault),
                {{"fault", fault}});
  }

  JobResult Result() {
    result_.first_loss = tracker_.first_loss();
    if (began_ != Time()) result_.seconds = Seconds(Now() - began_);
    if (!error_.ok()) {
      EndEarly();
      return result_;
    }
    result_.exit_code = ExitCodeOfJob();
    Keep();
    return result_;
  }

  int ExitCodeOfJob() const {
    // It was stopped for our signal, not by somebody who wants it to end.
    if (interrupted_ && result_.job.state == "stopped") return kExitLater;
    return static_cast<int>(result_.job.exit_code);
  }

  // The journal knows how the job ended, whether the file can be written or not.
  void Keep() {
    if (result_is_kept_) return;
    const absl::Status kept = KeepResult(result_.folder, ResultJson(result_));
    if (!kept.ok())
      ShowEvent("note",
                absl::StrCat("note: ", result_.folder, "/result.json could not be written (",
                             kept.message(), "); the same command writes it again"),
                Json::object());
  }

  int ExitCodeOfError() const {
    return absl::IsCancelled(error_) ? kExitLater : ExitCodeOf(error_);
  }

  // Before the folder is let go, in which another run may begin.
  void TellEarlyEnd() {
    if (error_.ok() || !request_.hosts || cluster_ == nullptr || others_wait_) return;
    // Where that is why it ends, it is said then.
    if (const absl::Status told = Meet(ExitCodeOfError()); !told.ok() && told != error_)
      TellNotTold(told);
  }

  void EndEarly() {
    const bool interrupted = absl::IsCancelled(error_);
    result_.error = error_;
    result_.job.state = interrupted ? "interrupted" : "failed";
    result_.job.reason = std::string(error_.message());
    result_.exit_code = ExitCodeOfError();
    const auto progress = tracker_.Now();
    if (!progress || progress->step < result_.job.step) return;
    result_.job.step = progress->step + 1;
    result_.job.epoch = progress->epoch;
    result_.job.loss = progress->loss;
  }

  const JobRequest& request_;
  Screen& screen_;
  JobResult result_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<Follower> follower_;       // once the job is submitted
  std::unique_ptr<EachSecond> hosts_watch_;  // while other hosts are waited for
  LogLines log_lines_;                       // that are to be shown
  std::unique_ptr<RunLogs> logs_;            // of the thread below, while that is there
  std::unique_ptr<EachSecond> logs_watch_;
  std::vector<std::string> present_;  // hosts, while they are to join
  ProgressTracker tracker_;
  std::set<std::string> running_;
  std::set<std::string> notes_;  // that were shown
  std::string not_heard_;        // why this host was not, as it was told last; empty: it was
  Time began_{};
  absl::Status error_;
  bool result_is_kept_ = false;  // of an earlier run, in which the job has ended
  bool accepted_ = false;
  bool has_begun_ = false;        // a process of the job has run
  bool told_prepares_ = false;    // what workers do before they join
  bool told_last_lines_ = false;  // of a process that fails again and again; others fail likewise
  bool coordinator_down_ = true;
  bool interrupted_ = false;  // the job is stopped for a signal, or as time is up
  bool signalled_ = false;
  Patience not_let_in_;          // by a coordinator that does not know our token
  std::optional<Room> room_;     // of a run on several hosts
  bool told_by_worker_ = false;  // the newest step that was shown
  std::string trouble_;   // why no checkpoint is made, as was told last; empty: nothing is known
  bool went_on_ = false;  // since the stop was looked at last
  bool over_ = false;
  bool members_may_run_ = false;   // though it is over
  bool others_run_ = false;        // other hosts, likewise
  bool others_were_told_ = false;  // if they are to end, too
  bool others_wait_ = false;       // for this host to come again, so the run is not over
  bool stopping_ = false;
};

}  // namespace

JobResult RunJob(const JobRequest& request, const ClusterMaker& make_cluster, Screen& screen) {
  return TrainRun(request, screen).Run(make_cluster);
}

}  // namespace muster::cli
