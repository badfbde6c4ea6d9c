// Words that a cluster knows, for the shells that complete them.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <sstream>
#include <string>

#include "cli/complete.h"
#include "lib/http/server.h"
#include "tests/lib/http/tls_layer.h"
#include "tests/support/cgroup_tree.h"

namespace muster::cli {
namespace {

Completion OfJobs(const std::string& to, const std::string& authority, const std::string& typed) {
  Completion completion = Complete({"watch", "--to", to, "--authority", authority, typed});
  EXPECT_EQ(completion.also, AlsoFrom::kJobs);
  return completion;
}

TEST(CompleteTest, JobsComeFromTheClusterAndOthersWordsAreNoneOfTheShell) {
  const http::TestCluster cluster;
  const CgroupTree files;
  const std::unique_ptr<http::Server> server =
      http::Server::Start(
          "127.0.0.1:0",
          {{"GET",
            "/v1/jobs",
            [](const http::Request&, const http::Responder& respond) {
              respond.Send({.body = R"json({"jobs":[{"id":"count-1","state":"running"},
                                                {"id":"copy","state":"done"},
                                                {"id":"co$(x)","state":"done"},
                                                {"id":"co\nx","state":"done"},
                                                {"id":"other","state":"done"}]})json"});
            },
            {"limit"}}},
          {.credentials = {.identity = cluster.own}})
          .value();
  files.Write("/authority.pem", cluster.trust().authority_pem);
  const Completion completion = OfJobs(server->Address(), files.root() + "/authority.pem", "co");
  const auto found = FromCluster(completion, {}, std::chrono::seconds(30));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].word, "count-1");
  EXPECT_EQ(found[0].about, "running");
  EXPECT_EQ(found[1].word, "copy");
  std::ostringstream out;
  PrintCompletion(completion, found, out);
  EXPECT_EQ(out.str(), "nothing\ncount-1\trunning\ncopy\tdone\n");
}

}  // namespace
}  // namespace muster::cli
