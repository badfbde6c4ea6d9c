#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/checkpoint_report.h"
#include "cli/checkpoints.h"
#include "cli/json_text.h"
#include "cli/saved_model.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/checkpoint/survey.h"

namespace muster::cli {
namespace {

using nlohmann::ordered_json;
using Verb = CheckpointsArguments::Verb;

// "2026-11-21T10:11:20.096Z" to the second, as of those in folders.
std::string ToTheSecond(const std::string& time) {
  constexpr size_t kWholeSeconds = 19;
  return time.size() > kWholeSeconds ? absl::StrCat(time.substr(0, kWholeSeconds), "Z") : time;
}

CheckpointRow RowOf(const SavedCheckpointAnswer& one) {
  CheckpointRow row{
      .step = one.step,
      .lineage = one.lineage,
      .epoch = one.epoch < 0 ? std::nullopt : std::optional(one.epoch),
      .bytes = static_cast<uint64_t>(std::max(int64_t{0}, one.bytes)),
      .when = ToTheSecond(Printable(one.time)),
      .why_not = one.complete || !one.why.empty() ? one.why : "its files are not all there",
      .finite = one.finite,
      .name = Printable(one.name)};
  if (one.value && !one.measure.empty()) row.measure = {Printable(one.measure), *one.value};
  row.best = one.best;
  return row;
}

ordered_json AsJson(const SavedCheckpointAnswer& one) {
  ordered_json json = AsJson(RowOf(one));
  json["checkpoint"] = Printable(one.checkpoint);
  json["left_out"] = one.left_out;
  json["deleting"] = one.deleting;
  return json;
}

class ClusterJob {
 public:
  ClusterJob(const RestClient& rest, std::string id, ClusterFilesPatience patience)
      : rest_(rest), id_(std::move(id)), patience_(patience) {}

  absl::Status Read() {
    MUSTER_ASSIGN_OR_RETURN(all_, rest_.Checkpoints(id_));
    return absl::OkStatus();
  }

  absl::Status List(bool as_json, std::ostream& out) const {
    if (!as_json) {
      std::vector<CheckpointRow> rows;
      for (const SavedCheckpointAnswer& one : all_) rows.push_back(RowOf(one));
      ListAsText(absl::StrCat("job ", id_), rows, out);
      return absl::OkStatus();
    }
    ordered_json list = ordered_json::array();
    for (const SavedCheckpointAnswer& one : all_) list.push_back(AsJson(one));
    out << Text(ordered_json{{"job", id_}, {"checkpoints", list}}) << "\n";
    return absl::OkStatus();
  }

  absl::StatusOr<const SavedCheckpointAnswer*> Find(const CheckpointArguments& arguments) const {
    MUSTER_RETURN_IF_ERROR(CheckHasAny());
    MUSTER_ASSIGN_OR_RETURN(const ChosenCheckpoint chosen,
                            ChooseOf(all_, absl::StrCat("job ", id_), WhichOf(arguments)));
    TellNote(chosen.note);
    return &all_[chosen.index];
  }
  absl::Status CheckHasAny() const {
    if (!all_.empty()) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat("job ", id_, " has no checkpoint"));
  }

  absl::Status Show(const SavedCheckpointAnswer& one, bool as_json, std::ostream& out) const {
    return ShowCheckpoint(Survey(*FilesOf(one), one), one.best, as_json, out);
  }

  // What is read here is compared here.
  absl::Status Verify(const std::vector<const SavedCheckpointAnswer*>& chosen, bool as_json,
                      std::ostream& out) const {
    std::vector<CheckpointToVerify> all;
    for (const SavedCheckpointAnswer* one : chosen)
      all.push_back({one->step, one->lineage, RowOf(*one).bytes, [this, one] {
                       const std::unique_ptr<CheckpointFiles> files = FilesOf(*one);
                       return VerifyOne(*files, Survey(*files, *one));
                     }});
    return VerifyEach(all, as_json, out);
  }
  absl::Status VerifyAll(bool as_json, std::ostream& out) const {
    MUSTER_RETURN_IF_ERROR(CheckHasAny());
    std::vector<const SavedCheckpointAnswer*> chosen;
    for (const SavedCheckpointAnswer& one : all_) chosen.push_back(&one);
    return Verify(chosen, as_json, out);
  }

  absl::Status Keep(const CheckpointsArguments& arguments, const SavedCheckpointAnswer& one,
                    std::ostream& out) const {
    MUSTER_ASSIGN_OR_RETURN(
        const SavedCheckpointAnswer now,
        rest_.KeepCheckpoint(id_, one.checkpoint, arguments.release ? "" : arguments.name));
    TellChange(arguments.json, AsJson(now), KeptText(arguments, one.step), out);
    return absl::OkStatus();
  }

  absl::Status Delete(const CheckpointsArguments& arguments, const SavedCheckpointAnswer& one,
                      std::ostream& out) const {
    MUSTER_ASSIGN_OR_RETURN(const SavedCheckpointAnswer gone,
                            rest_.DeleteCheckpoint(id_, one.checkpoint, arguments.force));
    TellDeleted(arguments.json, RowOf(gone), out);
    return absl::OkStatus();
  }

 private:
  static CheckpointPlace PlaceOf(const SavedCheckpointAnswer& one) {
    return {LineageNumber(one.lineage), Step(one.step)};
  }
  std::unique_ptr<CheckpointFiles> FilesOf(const SavedCheckpointAnswer& one) const {
    return FilesOfCheckpoint(rest_, id_, PlaceOf(one), patience_);
  }
  // Folders of a cluster are not listed, so how large it is is what the coordinator says.
  static SurveyedCheckpoint Survey(const CheckpointFiles& files, const SavedCheckpointAnswer& one) {
    SurveyedCheckpoint found = std::move(SurveyCheckpoints(files, {PlaceOf(one)}).front());
    found.bytes = RowOf(one).bytes;
    return found;
  }

  const RestClient& rest_;
  const std::string id_;
  const ClusterFilesPatience patience_;
  std::vector<SavedCheckpointAnswer> all_;
};

}  // namespace

absl::Status CheckpointsOfCluster(const CheckpointsArguments& arguments, const RestClient& rest,
                                  std::ostream& out, ClusterFilesPatience patience) {
  MUSTER_ASSIGN_OR_RETURN(const std::string id, JobOfCluster(arguments));
  if (arguments.verb == Verb::kKeep) MUSTER_RETURN_IF_ERROR(CheckKeepsOrReleases(arguments));
  if (arguments.verb == Verb::kDelete) MUSTER_RETURN_IF_ERROR(CheckSaysWhich(arguments));
  ClusterJob job(rest, id, patience);
  MUSTER_RETURN_IF_ERROR(job.Read());
  if (arguments.verb == Verb::kList) return job.List(arguments.json, out);
  if (arguments.verb == Verb::kVerify && WhichOf(arguments).empty())
    return job.VerifyAll(arguments.json, out);
  MUSTER_ASSIGN_OR_RETURN(const SavedCheckpointAnswer* one, job.Find(arguments));
  switch (arguments.verb) {
    case Verb::kShow: return job.Show(*one, arguments.json, out);
    case Verb::kKeep: return job.Keep(arguments, *one, out);
    case Verb::kDelete: return job.Delete(arguments, *one, out);
    default: break;
  }
  return job.Verify({one}, arguments.json, out);
}

}  // namespace muster::cli
