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
  if (calls_.size() >= most_waiting_) return false;
  ++unfinished_;
  if (calls_.Post(std::move(call))) return true;
  --unfinished_;
  return false;
}

}  // namespace muster::coordinator
