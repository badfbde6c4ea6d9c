// What a worker was told of the samples of its job's stream (docs/decisions/0112-streams.md), where
// its data sets find it. Lives as long as the job; the exchange thread's, but for the map.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "lib/domain/stream.h"
#include "lib/spool/spool_map.h"

namespace muster {

class ToldStream {
 public:
  // `folder`: of the spool.
  explicit ToldStream(std::string folder) : map_(std::make_shared<SpoolMap>(std::move(folder))) {}
  ~ToldStream() { map_->Close(); }  // nobody waits for samples that are late any more
  ToldStream(const ToldStream&) = delete;
  ToldStream& operator=(const ToldStream&) = delete;

  std::shared_ptr<const SpoolMap> map() const { return map_; }

  // Before anybody is told to read samples that are new. kFailedPrecondition, and nothing changes:
  // it does not go on from what was told before, or speaks of positions that stand nowhere.
  absl::Status Learn(const StreamIs& told);

 private:
  const std::shared_ptr<SpoolMap> map_;
};

}  // namespace muster
