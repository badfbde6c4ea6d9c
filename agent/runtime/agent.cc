#include "agent/runtime/agent.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "lib/log/log.h"

namespace muster::agent {
namespace {

Time Now() { return std::chrono::steady_clock::now(); }

template <class Function, class... Args>
void CallIfSet(const Function& function, Args&&... args) {
  if (function) function(std::forward<Args>(args)...);
}

}  // namespace

Agent::Agent(EventLoop& loop, AgentOptions options, AgentEvents events)
    : loop_(loop),
      options_(std::move(options)),
      events_(std::move(events)),
      supervisor_(options_.supervisor),
      faults_(options_.faults, Now()) {
  SetTimer();
}

Agent::~Agent() {
  if (timer_) loop_.Cancel(*timer_);
  for (auto& [key, child] : children_) StopWatching(child);
}

void Agent::Do(SupervisorEvent event) {
  if (std::holds_alternative<StopAll>(event)) stopping_ = true;
  queue_.push_back(std::move(event));
  Drain();
}

// Calls out of an action may come back with new events: they wait their turn in the queue.
void Agent::Drain() {
  if (std::exchange(draining_, true)) return;
  while (!queue_.empty()) {
    const SupervisorEvent event = std::move(queue_.front());
    queue_.pop_front();
    for (const SupervisorAction& action : supervisor_.Step(event, Now()))
      std::visit([this](const auto& a) { Act(a); }, action);
    if (queue_.empty()) RunFaults();
  }
  draining_ = false;
  SetTimer();
  if (stopping_ && children_.empty() && !std::exchange(told_stopped_, true))
    CallIfSet(events_.on_stopped);
}

void Agent::Act(const Spawn& action) {
  const ProcessKey key = action.key;
  std::vector<std::string> arguments = options_.command(action);
  if (const auto point = faults_.Arm(key)) arguments.insert(arguments.end(), {"--fail-at", *point});
  Command command{.arguments = std::move(arguments), .log_file = options_.log_file(action)};
  if (options_.environment) command.environment = options_.environment(action);
  if (options_.cores) command.cores = options_.cores(key);
  auto started = ChildProcess::Start(command);
  if (!started.ok()) {
    const bool short_of_something =
        absl::IsResourceExhausted(started.status()) || absl::IsUnavailable(started.status());
    queue_.push_back(SpawnFailed{key, std::string(started.status().message()), short_of_something});
    return;
  }
  Child& child = children_.emplace(key, Child{.process = *std::move(started)}).first->second;
  loop_.Watch(child.process.report_fd(), [this, key] { ReadReports(key); });
  loop_.Watch(child.process.exit_fd(), [this, key] { OnEnd(key); });
  CallIfSet(events_.on_start,
            NoteStart{.key = key, .placement = action.placement, .pid = child.process.pid()});
}

void Agent::Act(const AskToSign& action) { CallIfSet(events_.ask_to_sign, action); }

void Agent::Act(const SendSignal& action) { Send(action.key, action.signal); }

void Agent::Act(const ReportExit& action) { CallIfSet(events_.tell_coordinator, action.exited); }

void Agent::Act(const TellDevices& action) { CallIfSet(events_.tell_devices, action.devices); }

void Agent::Act(const NoteExit& action) { CallIfSet(events_.on_exit, action); }

void Agent::Act(const NoteWait& action) { LogInfo("job %s: %s", action.key.job, action.text); }

void Agent::Send(const ProcessKey& key, int signal) {
  const auto it = children_.find(key);
  if (it == children_.end()) return;
  if (signal == SIGKILL) it->second.killed_by_us = true;
  it->second.process.Signal(signal);
}

void Agent::ReadReports(const ProcessKey& key) {
  const auto it = children_.find(key);
  if (it == children_.end() || !it->second.reports) return;
  Child& child = it->second;
  const bool open = child.lines.ReadFrom(child.process.report_fd(),
                                         [&](absl::string_view line) { OnReport(key, line); });
  if (open) return;
  child.reports = false;
  loop_.Unwatch(child.process.report_fd());
}

// A report that cannot be read is left out: reports are only shown, the ledger is what counts.
void Agent::OnReport(const ProcessKey& key, absl::string_view line) {
  const auto report = ParseReport(line);
  if (!report.ok()) return;
  if (report->step) {
    int64_t& highest = steps_.try_emplace(key.job, report->step->step).first->second;
    highest = std::max(highest, report->step->step);
    queue_.push_back(Progressed{key, Step(report->step->step)});
  }
  if (report->event == "sample") children_.at(key).sample = report->text;
  if (report->event == "metrics") children_.at(key).is_member = true;
  if (report->code) children_.at(key).code = report->code;
  if (report->event == "failpoint") faults_.Passed(key, report->point);
  CallIfSet(events_.on_report, key, *report);
  Drain();
}

void Agent::OnEnd(const ProcessKey& key) {
  ReadReports(key);  // its last reports are handled before its exit
  const auto it = children_.find(key);
  if (it == children_.end()) return;
  Child& child = it->second;
  std::optional<Exit> exit = child.process.TryReap();
  if (!exit) return;
  exit->out_of_memory =
      exit->signal == SIGKILL && !child.killed_by_us && memory_.KilledSinceLastCall();
  if (options_.lanes) exit->lanes = options_.lanes(key);
  exit->sample = std::move(child.sample);
  exit->untold = key != kCoordinatorKey && child.is_member && exit->signal == 0 &&
                 SaysThatItWasTold(exit->code) && child.code != exit->code;
  StopWatching(child);
  children_.erase(it);
  Do(Exited{key, *std::move(exit)});
}

void Agent::StopWatching(Child& child) {
  loop_.Unwatch(child.process.exit_fd());
  if (std::exchange(child.reports, false)) loop_.Unwatch(child.process.report_fd());
}

void Agent::RunFaults() {
  if (stopping_) return;
  std::erase_if(steps_, [this](const auto& entry) { return !supervisor_.Has(entry.first); });
  for (const FaultAction& action : faults_.Step(steps_, supervisor_.Running(), Now())) {
    CallIfSet(events_.on_fault, action);
    switch (action.what) {
      case FaultAction::Do::kKeepDown: queue_.push_back(KeepDown{action.key}); break;
      case FaultAction::Do::kRelease: queue_.push_back(Release{action.key}); break;
      case FaultAction::Do::kKill: Send(action.key, SIGKILL); break;
      case FaultAction::Do::kPause: Send(action.key, SIGSTOP); break;
      case FaultAction::Do::kContinue: Send(action.key, SIGCONT); break;
    }
  }
}

void Agent::SetTimer() {
  if (timer_) loop_.Cancel(*std::exchange(timer_, std::nullopt));
  std::optional<Time> next = supervisor_.NextTick();
  const std::optional<Time> fault = stopping_ ? std::nullopt : faults_.NextTick();
  if (fault && (!next || *fault < *next)) next = fault;
  if (!next) return;
  timer_ = loop_.At(*next, [this] {
    timer_.reset();
    Do(Tick{});
  });
}

}  // namespace muster::agent
