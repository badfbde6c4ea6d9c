// REST and gRPC as one client, so that one table of requests and answers tests both.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace muster::coordinator {

struct Answer {
  std::string code = "ok";  // of the error: "not_found"
  std::string message;
  std::string field;
  std::string id;  // of the job
  std::string state;
  bool created = false;
  std::vector<std::string> ids;  // of a list
  std::string next_page_token;   // likewise
};

class ControlClient {
 public:
  virtual ~ControlClient() = default;
  virtual Answer Submit(const std::string& id, const std::string& spec_json) = 0;
  virtual Answer Get(const std::string& id) = 0;
  Answer List() { return List(0, "", ""); }
  // A page; `limit` 0: as many as the coordinator likes.
  virtual Answer List(int64_t limit, const std::string& page_token, const std::string& state) = 0;
  virtual Answer Cancel(const std::string& id) = 0;
  virtual Answer Stop(const std::string& id) = 0;
  virtual Answer Delete(const std::string& id) = 0;
  virtual Answer Fingerprints(const std::string& id) = 0;
  virtual Answer Audit(const std::string& id) = 0;
  virtual Answer Digest(const std::string& id) = 0;
  // The events after `after`, up to and with one of that name, as "event".
  virtual std::vector<std::string> WatchUntil(const std::string& id, const std::string& after,
                                              const std::string& event, Answer& answer) = 0;
};

std::unique_ptr<ControlClient> MakeRestClient(const std::string& http);
std::unique_ptr<ControlClient> MakeGrpcClient(const std::string& grpc);

}  // namespace muster::coordinator
