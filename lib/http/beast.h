// The short names for Asio and Beast in the sources of this room; no header that others include has
// them.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/system/error_code.hpp>

#include "absl/strings/string_view.h"

namespace muster::http {

namespace net = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;
using net::ip::tcp;

inline absl::string_view View(beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace muster::http
