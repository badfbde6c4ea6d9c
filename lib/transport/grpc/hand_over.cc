#include "lib/transport/grpc/hand_over.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>

// Parts of gRPC live in headers and so are compiled with ThreadSanitizer, unlike the queues between
// them. The line on callbacks leaves typed services unwatched; sessions do not run inside those.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:^grpc::internal::CallOpSet<\n"
         "race:^grpc::internal::Callback\n"
         "race:^grpc::internal::Interceptor\n"
         "race:^grpc::ClientAsyncReaderWriter<\n"
         "race:^grpc::ServerAsyncReaderWriter<\n";
}
#endif

namespace muster {

void GiveToGrpc([[maybe_unused]] void* object) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(object);
#endif
}

void ReceiveFromGrpc([[maybe_unused]] void* object) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(object);
#endif
}

}  // namespace muster
