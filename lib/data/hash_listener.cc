#include "lib/data/hash_listener.h"

namespace muster {
namespace {

thread_local const HashListener* current = nullptr;

}  // namespace

void SetHashListenerOfThread(const HashListener* listener) { current = listener; }

const HashListener* CurrentHashListener() { return current; }

void DataGoesOn() {
  if (current != nullptr && current->goes_on) current->goes_on();
}

}  // namespace muster
