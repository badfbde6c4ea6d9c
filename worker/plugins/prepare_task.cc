#include "worker/plugins/prepare_task.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/mutex.h"
#include "lib/base/status.h"
#include "lib/base/version.h"
#include "lib/data/prepared_name.h"
#include "lib/data/stream_set.h"
#include "worker/plugins/guarded_task.h"

namespace muster::worker {
namespace {

// Of the training data alone, and of nothing that another job may have otherwise.
TaskOptions ForAll(TaskOptions options) {
  options.part = DataPart::kTraining;
  options.validation_paths.clear();
  options.seed = 0;
  return options;
}

absl::StatusOr<DataContent> Content(const DataSpec& data, const Preparing& preparing) {
  const auto told = [&](uint64_t bytes, uint64_t all) {
    if (bytes < all)
      preparing.told({.share = static_cast<double>(bytes) / static_cast<double>(all),
                      .what = "reads the data"});
    return preparing.may_wait() ? absl::OkStatus()
                                : absl::CancelledError("the data is not read any more");
  };
  return ContentOfData(data, preparing.kept_hashes, told, {preparing.told, preparing.may_wait});
}

// What a plug-in tells while it prepares. A thread that it has left behind tells nobody.
class ToldMeanwhile {
 public:
  using Progress = std::function<void(double, const std::string&)>;

  explicit ToldMeanwhile(const Progress& progress) : here_(std::make_shared<Here>()) {
    const MutexLock lock(here_->mutex);
    here_->progress = &progress;
  }
  ToldMeanwhile(const ToldMeanwhile&) = delete;
  ToldMeanwhile& operator=(const ToldMeanwhile&) = delete;
  ~ToldMeanwhile() {
    const MutexLock lock(here_->mutex);
    here_->progress = nullptr;
  }

  Progress progress() const {
    return [here = here_](double share, const std::string& what) {
      const MutexLock lock(here->mutex);
      if (here->progress != nullptr) (*here->progress)(share, what);
    };
  }

 private:
  struct Here {
    Mutex mutex;
    const Progress* progress ABSL_GUARDED_BY(mutex) = nullptr;
  };
  const std::shared_ptr<Here> here_;
};

}  // namespace

HashListener ListenerOf(const Preparing& preparing) {
  HashListener listener{preparing.told, preparing.may_wait};
  listener.goes_on = preparing.goes_on;
  listener.patience = preparing.patience;
  listener.warns = preparing.warns;
  return listener;
}

absl::StatusOr<PreparedPtr> PrepareTask(const PluginTask& plugin, TaskOptions options,
                                        const Preparing& preparing) {
  if (!plugin.type.prepare) return nullptr;
  if (preparing.is_for_checkpoint && plugin.type.info.model_holds_all) return nullptr;
  if (preparing.known != nullptr) return preparing.known;
  const std::string& name = plugin.type.info.name;
  if (preparing.folders.empty())
    return absl::FailedPreconditionError(
        absl::StrCat("task ", name, " prepares something, and this machine has no place for it: ",
                     "set XDG_CACHE_HOME, or HOME, for whoever starts the workers"));
  if (IsLive(options.data))
    return absl::FailedPreconditionError(
        absl::StrCat("data.format: task ", name,
                     " prepares something from its training data before "
                     "it is trained, and of a stream nothing has come then"));
  // What is read meanwhile is told to nobody, and is a sign that nothing hangs.
  HashListener reads = ListenerOf(preparing);
  reads.told = [](const PreparedSoFar&) {};
  const HashListening by_us(muster_set_hash_listener, reads);
  const HashListening by_plugin(plugin.set_hash_listener, reads);
  options = ForAll(std::move(options));
  const absl::StatusOr<DataContent> found = Content(options.data, preparing);
  MUSTER_RETURN_IF_ERROR(
      Prefix(absl::StrCat("task ", name, " prepares from the training data"), found.status()));
  const DataContent& content = *found;
  const std::string file = std::filesystem::path(plugin.file).filename().string();
  PrepareOnceOptions once;
  once.folders = preparing.folders;
  once.name =
      PreparedName({kVersion, name, plugin.hash, options.parameters, options.data, content.hash});
  once.about = absl::StrCat("task ", name, " of ", file);
  if (!options.data.paths.empty()) absl::StrAppend(&once.about, ", ", options.data.paths.front());
  once.verifies = options.data.verify == VerifyData::kFull;
  once.told = preparing.told;
  once.may_wait = preparing.may_wait;
  once.make = [&](const std::string& files, const auto& progress) -> absl::Status {
    {
      const ToldMeanwhile told(progress);
      MUSTER_RETURN_IF_ERROR(PrepareGuarded(name, [&] {
        return plugin.type.prepare(options, Preparation{files, told.progress()});
      }));
    }
    return CheckUnchanged(content.files);
  };
  absl::StatusOr<PreparedPtr> prepared = PrepareOnce(once);
  MUSTER_RETURN_IF_ERROR(Prefix(absl::StrCat("task ", name), prepared.status()));
  return prepared;
}

}  // namespace muster::worker
