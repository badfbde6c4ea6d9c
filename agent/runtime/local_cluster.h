// A cluster on this machine: the coordinator, which it keeps running, and this machine as its first
// host. Others may join. On the loop's thread, the main thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/runtime/host_agent.h"
#include "agent/runtime/own_identity.h"
#include "agent/runtime/run_folder.h"
#include "lib/identity/tls_context.h"
#include "lib/transport/transport.h"

namespace muster::agent {

struct LocalClusterOptions {
  std::string folder;
  std::string http;        // address of the REST port; empty: any on loopback
  std::string join;        // where other hosts join with the secret of the run; empty: nobody does
  std::string webhooks{};  // the file of the coordinator's --webhooks; empty: it has none
  std::vector<std::string> mlflow{};  // its --mlflow and what belongs to it; empty: it has none
  // Everybody has certificates of the cluster's own authority: then this says of which cluster the
  // store is that lies in a folder and has no authority yet; empty: there is none. Null: nobody
  // has.
  std::function<absl::StatusOr<std::string>(const std::string& store)> cluster_in;
  // `coordinator` is where the coordinator is to listen for agents and members; empty: any port on
  // loopback. Members listen on the same address.
  HostOptions host;
};

struct LocalClusterEvents {
  std::function<void(NoteStart)> on_start;
  std::function<void(const NoteExit&)> on_exit;
  std::function<void(const ProcessKey&, const Report&)> on_report;
  std::function<void(const FaultAction&)> on_fault;
  std::function<void(bool up)> on_coordinator;  // it listens; it has ended
  // The coordinator listens, and yet this host gets no session with it, with the reason, which
  // comes again with each try.
  std::function<void(const std::string& why)> on_no_session;
  std::function<void()> on_stopped;
};

// To speak with that identity; null: in plain text.
using TransportMaker =
    std::function<std::unique_ptr<Transport>(const std::shared_ptr<IdentitySource>&)>;

class LocalCluster {
 public:
  // kFailedPrecondition: the folder is in use; kNotFound: a program of ours is missing; others: the
  // folder cannot be written, or no port is free.
  static absl::StatusOr<std::unique_ptr<LocalCluster>> Make(EventLoop& loop,
                                                            const TransportMaker& make_transport,
                                                            LocalClusterOptions options,
                                                            LocalClusterEvents events);

  void Start();
  // "https://127.0.0.1:PORT", the same as long as this lives.
  std::string url() const;
  Trust trust() const;                                         // whom to expect there
  const std::string& join() const { return addresses_.join; }  // empty: nobody joins
  const RunFolder& folder() const { return folder_; }
  HostAgent& host() const { return *host_; }

 private:
  LocalCluster(LocalClusterOptions options, LocalClusterEvents events, RunFolder folder,
               ClusterAddresses addresses);
  absl::Status MakeIdentity();
  absl::Status MakeHost(EventLoop& loop, const TransportMaker& make_transport);
  std::vector<std::string> CoordinatorCommand() const;
  void OnReport(const ProcessKey& key, const Report& report);
  void OnExit(NoteExit note);
  void OnNoSession(const absl::Status& why);
  absl::StatusOr<ClusterAddresses> OtherAddresses();
  std::string LeaveTakenAddresses();

  const LocalClusterOptions options_;
  const LocalClusterEvents events_;
  RunFolder folder_;
  ClusterAddresses addresses_;  // that of gRPC changes where nobody else was told it
  std::string join_secret_file_;
  std::optional<int> tries_in_vain_;       // since the coordinator listens; nothing: it does not
  std::unique_ptr<OwnIdentity> identity_;  // null: in plain text
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<HostAgent> host_;
};

}  // namespace muster::agent
