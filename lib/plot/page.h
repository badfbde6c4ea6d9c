// A picture as a page for a browser, which tells the values under the pointer. It loads nothing.
// Pure.
#pragma once

#include <string>

#include "lib/plot/picture.h"

namespace muster::plot {

std::string Page(const Picture& picture);

}  // namespace muster::plot
