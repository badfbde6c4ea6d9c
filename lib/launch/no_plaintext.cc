// Of the programs that people get.
#include "lib/launch/plaintext.h"

namespace muster {

bool MaySpeakPlaintext() { return false; }

}  // namespace muster
