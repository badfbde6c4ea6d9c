#include "coordinator/runtime/background.h"

#include <utility>

namespace muster::coordinator {

Background::Background(size_t most_waiting) : most_waiting_(most_waiting) {
  thread_ = std::thread([this] {
    while (auto call = calls_.TakeUntil(Time::max())) {
      if (stopping_.stop_requested()) return;
      (*call)(stopping_.get_token());
      call.reset();
      --unfinished_;
    }
  });
}

Background::~Background() { Stop(); }

void Background::Stop() {
  stopping_.request_stop();
  calls_.Close();
  if (thread_.joinable()) thread_.join();
  while (calls_.TryTake()) {
  }
}

bool Background::Run(Call call) {
  // The call that runs does not wait.
  if (unfinished_.fetch_add(1) <= most_waiting_ && calls_.Post(std::move(call))) return true;
  --unfinished_;
  return false;
}

}  // namespace muster::coordinator
