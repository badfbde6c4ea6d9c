// ThreadSanitizer cannot see how gRPC, which is not compiled with it, hands an object from the
// thread that starts an operation to the thread that is told of its end. These two say so. Without
// ThreadSanitizer they do nothing.
#pragma once

namespace muster {

// Before `object` is given to gRPC: what this thread did so far is seen by whoever receives it.
void GiveToGrpc(void* object);
// First thing when gRPC gives `object` back.
void ReceiveFromGrpc(void* object);

}  // namespace muster
