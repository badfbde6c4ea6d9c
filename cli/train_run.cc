#include "cli/train_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/cluster_folder.h"
#include "cli/job_file.h"
#include "cli/json_text.h"
#include "cli/spec_file.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/domain/notes.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {
namespace {

using Json = nlohmann::ordered_json;

// Members end by themselves after the job; those that do not within this time are told to.
constexpr Duration kLeaveTime = std::chrono::seconds(5);
// A coordinator that is away when the job is to be stopped is waited for so long.
constexpr Duration kStopPatience = std::chrono::seconds(60);

Time Now() { return std::chrono::steady_clock::now(); }

// As many members as the job asks for at most.
int SlotsOf(const JobSpec& spec) { return spec.runtime.workers_max + spec.runtime.servers; }

Json NumberOrNull(double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); }

class TrainRun {
 public:
  TrainRun(const JobRequest& request, Screen& screen) : request_(request), screen_(screen) {
    result_.folder = request.folder;
    result_.job.loss = NAN;
  }

  JobResult Run(const ClusterMaker& make_cluster) {
    error_.Update(Begin(make_cluster));
    if (error_.ok()) cluster_->Run();
    follower_.reset();
    if (error_.ok()) TellMissedFaults();
    cluster_.reset();
    return Result();
  }

 private:
  absl::Status Begin(const ClusterMaker& make_cluster) {
    MUSTER_ASSIGN_OR_RETURN(cluster_, make_cluster({.folder = request_.folder,
                                                    .faults = request_.faults,
                                                    .faults_source = request_.faults_source,
                                                    .workers = request_.spec.runtime.workers_max,
                                                    .servers = request_.spec.runtime.servers,
                                                    .slots = SlotsOf(request_.spec),
                                                    .lease = request_.lease,
                                                    .thread_patience = request_.thread_patience},
                                                   Events()));
    result_.folder = cluster_->folder();
    MUSTER_ASSIGN_OR_RETURN(result_.job.id, JobIdOf(result_.folder, request_.spec));
    const std::string& id = result_.job.id;
    screen_.Say(absl::StrCat("job ", id, " in ", result_.folder));
    EmitStart(id);
    for (const std::string& note : NotesOn(request_.spec)) {
      notes_.insert(absl::StrCat("note: ", note));
      ShowEvent("note", absl::StrCat("note: ", note), Json::object());
    }
    began_ = Now();
    cluster_->Start();
    follower_ = std::make_unique<Follower>(
        cluster_->url(), id, ToJson(request_.spec),
        [this](std::function<void()> call) { cluster_->Post(std::move(call)); },
        FollowerEvents{
            .on_job = [this](const JobAnswer& job) { OnJob(job); },
            .on_refused = [this](const absl::Status& why) { GiveUp(why); },
            .on_event = [this](const EventAnswer& event) { OnEvent(event); },
            .on_over = [this](const JobAnswer& job,
                              const std::vector<StepFingerprint>& list) { OnOver(job, list); }});
    return absl::OkStatus();
  }

  ClusterEvents Events() {
    return {
        .on_start = [this](const ProcessStart& start) { OnStart(start); },
        .on_exit = [this](const ProcessExit& exit) { OnExit(exit); },
        .on_report = [this](const ProcessReport& report) { OnReport(report); },
        .on_fault = [this](const std::string& text) { ShowEvent("fault", text, Json::object()); },
        .on_coordinator = [this](bool up) { OnCoordinator(up); },
        .on_interrupt = [this](int) { OnInterrupt(); },
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
    has_begun_ = has_begun_ || !start.job.empty();
    screen_.Emit(
        Text(Json({{"event", "process_start"}, {"process", start.process}, {"pid", start.pid}})));
  }

  void OnExit(const ProcessExit& exit) {
    running_.erase(exit.process);
    tracker_.OnGone(exit.process);
    if (over_ || stopping_) {
      if (over_ && OnlyCoordinatorRuns()) StopCluster();
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
    if (report.event == "prepares") OnPrepares(report.process);
    if (report.event == "sample" && !report.text.empty())
      result_.sample = PrintableLines(report.text);
    if (!report.step || !tracker_.OnStep(*report.step, Now())) return;
    if (coordinator_down_) ++result_.steps_without_coordinator;
    if (auto progress = tracker_.Now()) {
      AddDetails(*progress);
      screen_.ShowProgress(*progress, Now());
      EmitStep(*progress);
    }
  }

  // Large data is read for minutes, in which nothing else happens. What the first one does all do,
  // so that people are told once.
  void OnPrepares(const std::string& process) {
    const std::string text =
        absl::StrCat(process, " reads its data and makes its model, as each worker does first");
    if (!std::exchange(told_prepares_, true)) screen_.Say(text);
    screen_.Emit(Text(Json({{"event", "prepares"}, {"text", text}, {"process", process}})));
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
    if (up) screen_.NotAgain();
    if (up) Disturbed(0);
  }

  void OnJob(const JobAnswer& job) {
    result_.job = job;
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
    const Resume& resume = request_.spec.runtime.resume;
    if (job.step == 0 || resume.kind == ResumeKind::kNever) return 0;
    const int64_t from = resume.kind == ResumeKind::kStep ? resume.step : job.checkpoint_step;
    return std::max<int64_t>(0, from);
  }

  std::string WhereItGoesOn(const JobAnswer& job) const {
    const Resume& resume = request_.spec.runtime.resume;
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
    if (event.name == "recovery" || event.name == "view") Disturbed(event.step);
    if (event.name == "fingerprint" && request_.cancel_after >= 0 &&
        event.step >= request_.cancel_after)
      follower_->AskCancel();
    NoteTrouble(event);
    // Steps come faster through the report pipes, which show them.
    if (event.name == "step") return;
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
    if (OnlyCoordinatorRuns()) {
      StopCluster();
    } else {
      cluster_->After(kLeaveTime, [this] { StopCluster(); });
    }
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

  void OnInterrupt() {
    if (!std::exchange(interrupted_, true) && !over_ && !stopping_) {
      if (coordinator_down_ && !IsUnderWay()) return GiveUp(NothingToSave());
      screen_.Say(absl::StrCat(
          "stopping after a checkpoint",
          trouble_.empty() ? "" : absl::StrCat(", which is waited for for a minute: ", trouble_),
          "; press Ctrl-C again to stop at once"));
      went_on_ = false;
      follower_->AskStop();
      cluster_->After(kStopPatience, [this] { LookAtTheStop(); });
      return;
    }
    if (!over_)
      error_.Update(absl::CancelledError(
          "stopped at once; started again it goes on from its newest checkpoint"));
    StopCluster();
    cluster_->Stop();
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
    result_.exit_code = static_cast<int>(result_.job.exit_code);
    // It was stopped for our signal, not by somebody who wants it to end.
    if (interrupted_ && result_.job.state == "stopped") result_.exit_code = kExitLater;
    Keep();
    return result_;
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

  void EndEarly() {
    const bool interrupted = absl::IsCancelled(error_);
    result_.error = error_;
    result_.job.state = interrupted ? "interrupted" : "failed";
    result_.job.reason = std::string(error_.message());
    result_.exit_code = interrupted ? kExitLater : ExitCodeOf(error_);
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
  std::unique_ptr<Follower> follower_;
  ProgressTracker tracker_;
  std::set<std::string> running_;
  std::set<std::string> notes_;  // that were shown
  Time began_{};
  absl::Status error_;
  bool result_is_kept_ = false;  // of an earlier run, in which the job has ended
  bool accepted_ = false;
  bool has_begun_ = false;        // a process of the job has run
  bool told_prepares_ = false;    // what workers do before they join
  bool told_last_lines_ = false;  // of a process that fails again and again; others fail likewise
  bool coordinator_down_ = true;
  bool interrupted_ = false;
  std::string trouble_;   // why no checkpoint is made, as was told last; empty: nothing is known
  bool went_on_ = false;  // since the stop was looked at last
  bool over_ = false;
  bool stopping_ = false;
};

}  // namespace

JobResult RunJob(const JobRequest& request, const ClusterMaker& make_cluster, Screen& screen) {
  return TrainRun(request, screen).Run(make_cluster);
}

JobResult FailedResult(const absl::Status& error) {
  JobResult result;
  result.error = error;
  result.job.state = "failed";
  result.job.reason = std::string(error.message());
  result.job.loss = NAN;
  result.exit_code = ExitCodeOf(error);
  return result;
}

std::string ResultJson(const JobResult& result) {
  const JobAnswer& job = result.job;
  return Text(Json({{"event", "result"},
                    {"job", job.id},
                    {"state", job.state},
                    {"reason", job.reason},
                    {"steps", job.step},
                    {"epochs", job.epoch},
                    {"samples", job.samples},
                    {"first_loss", NumberOrNull(result.first_loss.value_or(NAN))},
                    {"final_loss", NumberOrNull(job.loss)},
                    {"digest", job.digest.empty() ? Json(nullptr) : Json(job.digest)},
                    {"fingerprint", job.fingerprint},
                    {"fingerprint_step", job.fingerprint_step},
                    {"seconds", result.seconds},
                    {"workers", job.workers},
                    {"views", job.views},
                    {"recoveries", job.recoveries},
                    {"rewinds", job.rewinds},
                    {"lanes_recomputed", job.lanes_recomputed},
                    {"sample", result.sample},
                    {"folder", result.folder},
                    {"exit_code", result.exit_code}}));
}

namespace {

// The time is that of this run, and is said of what this run did.
std::string HowItEnded(const JobResult& result) {
  const std::string& state = result.job.state;
  if (result.was_over) return absl::StrCat(" was ", state, " before");
  const std::string time = HowLong(result.seconds);
  return result.steps_before > 0 ? absl::StrCat(" is ", state, ", ", time, " after it went on")
                                 : absl::StrCat(" is ", state, " after ", time);
}

}  // namespace

std::string ResultText(const JobResult& result) {
  const JobAnswer& job = result.job;
  std::string text =
      absl::StrCat("job ", job.id, HowItEnded(result), ": ", Plural(job.step, "step"),
                   result.steps_before > 0 ? " in all" : "", ", ", Plural(job.samples, "sample"),
                   ", ", Plural(job.workers, "worker"), "\n");
  if (!job.reason.empty() && job.reason != job.state)
    absl::StrAppend(&text, "  reason       ", job.reason, "\n");
  if (std::isfinite(job.loss)) {
    const std::string before =
        result.first_loss ? absl::StrCat(Loss(*result.first_loss), " at first, ") : "";
    absl::StrAppend(&text, "  loss         ", before, Loss(job.loss), " at last\n");
  }
  absl::StrAppend(&text, "  views        ", job.views, ", ",
                  Plural(job.recoveries, "recovery", "recoveries"), ", ",
                  Plural(job.rewinds, "rewind"), ", ", Plural(job.lanes_recomputed, "lane"),
                  " computed again\n");
  if (!job.fingerprint.empty())
    absl::StrAppend(&text, "  fingerprint  ", job.fingerprint, " after step ", job.fingerprint_step,
                    "\n");
  if (const std::string digest = DigestOf(job); !digest.empty())
    absl::StrAppend(&text, "  digest       ", digest, "\n");
  absl::StrAppend(&text, "  logs         ", LogFolder(result.folder, job.id), "\n",
                  "  history      ", HistoryFileOf(result.folder, job.id), "\n", "  checkpoints  ",
                  result.folder, "/checkpoints\n", "  metrics      ", result.folder,
                  "/prometheus-targets.json (for Prometheus' file_sd_configs)\n");
  return text;
}

}  // namespace muster::cli
