#include "coordinator/runtime/background.h"

#include <utility>

namespace muster::coordinator {

Background::Background() {
  thread_ = std::thread([this] {
    while (auto call = calls_.TakeUntil(Time::max())) {
      if (stopping_) return;
      (*call)();
    }
  });
}

Background::~Background() { Stop(); }

void Background::Stop() {
  stopping_ = true;
  calls_.Close();
  if (thread_.joinable()) thread_.join();
  while (calls_.TryTake()) {
  }
}

void Background::Run(std::function<void()> call) { calls_.Post(std::move(call)); }

}  // namespace muster::coordinator
