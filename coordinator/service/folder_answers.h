// What a coordinator would say of its jobs, read from its folder while none runs there. Nothing in
// the folder changes: whatever would change a job is kFailedPrecondition.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/runtime/journal.h"
#include "coordinator/service/control_api.h"
#include "lib/http/message.h"
#include "lib/http/router.h"

namespace muster::coordinator {

class FolderAnswers {
 public:
  // `dir` and `checkpoint_root` as a coordinator's --dir and --checkpoint-dir. kNotFound: no
  // coordinator has run there; kDataLoss: what is there is damaged.
  static absl::StatusOr<std::unique_ptr<FolderAnswers>> Open(const std::string& dir,
                                                             std::string checkpoint_root);

  // As REST answers (docs/rest.md); it takes as long as the answer takes.
  http::Response Ask(const std::string& method, absl::string_view target,
                     const std::string& body) const;

 private:
  FolderAnswers(std::unique_ptr<Journal> journal, std::unique_ptr<JobApi> api, http::Router router)
      : journal_(std::move(journal)), api_(std::move(api)), router_(std::move(router)) {}

  const std::unique_ptr<Journal> journal_;
  const std::unique_ptr<JobApi> api_;
  const http::Router router_;
};

}  // namespace muster::coordinator
