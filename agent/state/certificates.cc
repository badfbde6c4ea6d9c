#include "agent/state/certificates.h"

#include <algorithm>

namespace muster::agent {

void Certificates::Begin(const SignMember& question) {
  processes_[KeyOf(question.process)] = {.question = question};
}

void Certificates::End(const ProcessKey& key) { processes_.erase(key); }

std::vector<SignMember> Certificates::Unanswered() const {
  std::vector<SignMember> questions;
  for (const auto& [key, one] : processes_)
    if (one.is_asked) questions.push_back(one.question);
  return questions;
}

std::vector<SignMember> Certificates::Renew(Time now, absl::Time wall) {
  std::vector<SignMember> questions;
  for (auto& [key, one] : processes_) {
    if (one.is_asked || (now < one.renew_at && wall < one.renew_by)) continue;
    one.is_asked = true;
    questions.push_back(one.question);
  }
  return questions;
}

Certificates::Meaning Certificates::MeaningOf(const ProcessName& process) const {
  const auto it = processes_.find(KeyOf(process));
  if (it == processes_.end() || !it->second.is_asked || it->second.question.process != process)
    return Meaning::kStale;
  return it->second.has_one ? Meaning::kRenewal : Meaning::kFirst;
}

void Certificates::LookAt(One& one, Time now) const {
  if (trust_.empty() || !one.has_one || one.trust == trust_) return;
  one.renew_at = std::min(one.renew_at, now);
}

void Certificates::Trust(const std::string& hash, Time now) {
  if (hash == trust_) return;
  trust_ = hash;
  for (auto& [key, one] : processes_) LookAt(one, now);
}

bool Certificates::AllTrust(const std::string& hash) const {
  return std::all_of(processes_.begin(), processes_.end(), [&](const auto& entry) {
    return entry.second.has_one && entry.second.trust == hash;
  });
}

void Certificates::Got(const ProcessName& process, const std::string& trust, Duration lasts,
                       Time now, absl::Time wall) {
  if (MeaningOf(process) == Meaning::kStale) return;
  One& one = processes_.at(KeyOf(process));
  one.is_asked = false;
  one.has_one = true;
  one.trust = trust;
  one.renew_at = now + lasts / 2;
  const bool has_wall = wall != absl::InfinitePast();
  one.renew_by = has_wall ? wall + absl::FromChrono(lasts) / 2 : absl::InfiniteFuture();
  LookAt(one, now + kTrustAgainAfter);
}

void Certificates::Failed(const ProcessName& process, Time now) {
  const Meaning meaning = MeaningOf(process);
  if (meaning == Meaning::kFirst) End(KeyOf(process));
  if (meaning != Meaning::kRenewal) return;
  One& one = processes_.at(KeyOf(process));
  one.is_asked = false;
  one.renew_at = now + kAskAgainAfter;
  one.renew_by = absl::InfiniteFuture();
}

const SignMember* Certificates::Find(const ProcessKey& key) const {
  const auto it = processes_.find(key);
  return it == processes_.end() ? nullptr : &it->second.question;
}

std::vector<ProcessKey> Certificates::All() const {
  std::vector<ProcessKey> keys;
  for (const auto& [key, one] : processes_) keys.push_back(key);
  return keys;
}

}  // namespace muster::agent
