// OpenSSL frees its tables when main has returned. gRPC's threads are not ended before, and one
// that closes a session of TLS just then would look into what is gone, and end the process by a
// signal once all is done.
#pragma once

namespace muster {

// First in main, before anything else uses OpenSSL: nothing of it is freed at the end, which the
// system does all the same.
void KeepOpenSslAtExit();

}  // namespace muster
