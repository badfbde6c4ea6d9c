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

Background::~Background() {
  stopping_ = true;
  calls_.Close();
  thread_.join();
}

void Background::Run(std::function<void()> call) { calls_.Post(std::move(call)); }

}  // namespace muster::coordinator
