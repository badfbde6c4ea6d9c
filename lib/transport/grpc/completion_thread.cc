#include "lib/transport/grpc/completion_thread.h"

#include <utility>

#include "lib/transport/grpc/hand_over.h"

namespace muster {
namespace {
thread_local bool inside = false;
}  // namespace

CompletionThread::CompletionThread(std::unique_ptr<grpc::CompletionQueue> queue)
    : queue_(std::move(queue)), thread_([this] { Run(); }) {}

CompletionThread::~CompletionThread() {
  queue_->Shutdown();
  thread_.join();
}

bool CompletionThread::Inside() { return inside; }

void CompletionThread::Run() {
  inside = true;
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
    ReceiveFromGrpc(tag);
    static_cast<Completion*>(tag)->Done(ok);
  }
}

}  // namespace muster
