// One completion queue and the thread that serves it.
#pragma once

#include <grpcpp/completion_queue.h>

#include <memory>
#include <thread>

namespace muster {

// What gRPC hands back when an operation is done.
class Completion {
 public:
  virtual ~Completion() = default;
  virtual void Done(bool ok) = 0;  // on the queue's thread
};

class CompletionThread {
 public:
  explicit CompletionThread(std::unique_ptr<grpc::CompletionQueue> queue);
  // No operation may be started any more; returns when all that were started are done.
  ~CompletionThread();
  CompletionThread(const CompletionThread&) = delete;
  CompletionThread& operator=(const CompletionThread&) = delete;

  grpc::CompletionQueue* queue() const { return queue_.get(); }

  // True on any such thread of this process, that is inside any handler.
  static bool Inside();

 private:
  void Run();

  const std::unique_ptr<grpc::CompletionQueue> queue_;
  std::thread thread_;
};

}  // namespace muster
