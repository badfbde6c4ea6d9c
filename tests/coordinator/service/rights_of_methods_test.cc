// Walks what can be called: whatever somebody adds to a service needs a row in the
// table of rights, and a row needs something that can be called.
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "coordinator/state/rights.h"
#include "muster/v1/control.pb.h"

namespace muster::coordinator {
namespace {

TEST(RightsOfMethods, EachMethodOfEachServiceHasARow) {
  std::set<std::string> methods;
  const google::protobuf::FileDescriptor* file = v1::JobRequest::descriptor()->file();
  ASSERT_GE(file->service_count(), 2);
  for (int s = 0; s < file->service_count(); ++s)
    for (int m = 0; m < file->service(s)->method_count(); ++m)
      methods.insert(file->service(s)->method(m)->full_name());
  for (const std::string& method : methods)
    EXPECT_NE(RightsOfMethod(method), nullptr) << method << " has no row in kMethods";
  for (const MethodRights& row : kMethods)
    EXPECT_TRUE(row.method.empty() || methods.contains(std::string(row.method)))
        << row.method << " is no method";
}

}  // namespace
}  // namespace muster::coordinator
