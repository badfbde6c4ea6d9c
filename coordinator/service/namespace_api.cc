#include "coordinator/service/namespace_api.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/config/field_error.h"
#include "lib/domain/labels.h"

namespace muster::coordinator {
namespace {

absl::Status CheckName(const std::string& name) {
  if (IsDnsLabel(name)) return absl::OkStatus();
  return FieldError(
      "", "namespace",
      absl::StrCat("'", Cut(Printable(name)), "' is not a namespace; allowed: ", kDnsLabelRule));
}

absl::Status CheckBound(const char* field, const std::optional<int32_t>& most) {
  if (!most || (*most >= 0 && *most <= kMostQuota)) return absl::OkStatus();
  return FieldError("", field, absl::StrCat(*most, " is out of range; allowed: 0 to ", kMostQuota));
}

// One without jobs and without a quota is there, too.
NamespaceInfo Find(const KnownCluster& known, const std::string& name) {
  for (NamespaceInfo& info : NamespacesOf(known).namespaces)
    if (info.name == name) return std::move(info);
  return {.name = name};
}

class Api final : public NamespaceApi {
 public:
  explicit Api(Driver& driver) : driver_(driver) {}

  void List(const std::string& scope, Reply<NamespaceList> reply) override {
    const absl::StatusOr<KnownCluster> known = driver_.KnownWithHosts();
    if (!known.ok()) return reply(known.status());
    NamespaceList list = NamespacesOf(*known);
    std::erase_if(list.namespaces, [&](const NamespaceInfo& info) {
      return !Sees({.scope = scope}, {.name_space = info.name});
    });
    reply(std::move(list));
  }

  void Get(const std::string& name, Reply<NamespaceInfo> reply) override {
    if (const absl::Status bad = CheckName(name); !bad.ok()) return reply(bad);
    reply(Look(name));
  }

  void SetQuota(const std::string& name, const Quota& quota, Reply<NamespaceInfo> reply) override {
    for (const absl::Status& bad :
         {CheckName(name), CheckBound("slots", quota.slots), CheckBound("queued", quota.queued)})
      if (!bad.ok()) return reply(bad);
    const auto decide = [this, name,
                         quota](const KnownJobs&) -> absl::StatusOr<std::optional<Input>> {
      MUSTER_ASSIGN_OR_RETURN(const KnownCluster known, driver_.KnownWithHosts());
      if (!quota.is_none() && !known.quotas->contains(name) && known.quotas->size() >= kMostQuotas)
        return absl::ResourceExhaustedError(
            absl::StrCat(kMostQuotas,
                         " namespaces have quotas already; take those away that are "
                         "not needed any more (both null, and a priority of 0)"));
      return coordinator::SetQuota{name, quota};
    };
    // What was decided is published once it is written, which is before this.
    driver_.Change(decide,
                   [this, name, reply = std::move(reply)](const absl::StatusOr<KnownJobs>& jobs) {
                     if (!jobs.ok()) return reply(jobs.status());
                     reply(Look(name));
                   });
  }

 private:
  absl::StatusOr<NamespaceInfo> Look(const std::string& name) const {
    MUSTER_ASSIGN_OR_RETURN(const KnownCluster known, driver_.KnownWithHosts());
    return Find(known, name);
  }

  Driver& driver_;
};

}  // namespace

NamespaceList NamespacesOf(const KnownCluster& known) {
  std::map<std::string, NamespaceInfo> by_name;
  for (const auto& [name, quota] : *known.quotas) {
    by_name[name].slots = quota.slots;
    by_name[name].queued = quota.queued;
    by_name[name].priority = quota.priority;
  }
  for (const KnownJobPtr& known_job : *known.jobs) {
    const JobJournal& job = known_job->status.job;
    NamespaceInfo& info = by_name[job.spec.queue.name_space];
    if (job.phase == JobPhase::kQueued) ++info.jobs_queued;
    if (!HoldsPlaces(job)) continue;
    ++info.jobs_running;
    info.slots_held += static_cast<int32_t>(job.placements.size());
  }
  NamespaceList list;
  for (auto& [name, info] : by_name) {
    info.name = name;
    list.namespaces.push_back(std::move(info));
  }
  return list;
}

absl::Status CheckQueued(const KnownCluster& known, const std::string& id,
                         const std::string& name_space) {
  const auto quota = known.quotas->find(name_space);
  if (quota == known.quotas->end() || !quota->second.queued) return absl::OkStatus();
  int32_t waiting = 0;
  for (const KnownJobPtr& known_job : *known.jobs) {
    const JobJournal& job = known_job->status.job;
    const bool waits = job.phase == JobPhase::kQueued && job.spec.queue.name_space == name_space;
    waiting += waits && job.id != id ? 1 : 0;
  }
  if (waiting < *quota->second.queued) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "namespace ", name_space, " has ", Plural(waiting, "job"), " waiting, and may have ",
      *quota->second.queued, "; submit this one when some of them have started"));
}

std::unique_ptr<NamespaceApi> MakeNamespaceApi(Driver& driver) {
  return std::make_unique<Api>(driver);
}

}  // namespace muster::coordinator
