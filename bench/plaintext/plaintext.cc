// Of programs for benches and tests, which nobody installs.
#include "lib/launch/plaintext.h"

namespace muster {

bool MaySpeakPlaintext() { return true; }

}  // namespace muster
