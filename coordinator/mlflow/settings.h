// Which MLflow tracking server there is, and as whom it is spoken to. Plain values.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace muster::coordinator {

struct MlflowAsked {
  std::string url;         // of --mlflow
  std::string experiment;  // of --mlflow-experiment; empty: one for each namespace
  std::string token_file;  // of --mlflow-token-file; empty: the environment may have one
};

struct MlflowSettings {
  std::string url;  // without a slash at its end
  std::string experiment;
  std::string authorization{};  // value of that header; empty: the server asks for none
  std::string ca{};             // whom to trust there, in PEM; empty: those that the machine trusts
};

// `variable` is asked for what MLflow's own clients read of the environment: MLFLOW_TRACKING_TOKEN,
// MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, MLFLOW_TRACKING_SERVER_CERT_PATH; it
// returns "" for what is not set. All errors are kInvalidArgument and name the option or variable,
// and no secret.
absl::StatusOr<MlflowSettings> MlflowSettingsOf(
    const MlflowAsked& asked, const std::function<std::string(const char* name)>& variable);

}  // namespace muster::coordinator
