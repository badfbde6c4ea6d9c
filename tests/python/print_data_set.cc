// Prints all samples of the data set that a job describes, for a script that knows what they are:
// "name type dimensions" for each field, an empty line, and then the bytes of each field.
//
// usage: print_data_set JOB.yaml
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <numeric>
#include <string>

#include "absl/strings/str_join.h"
#include "lib/base/status.h"
#include "lib/wire/job_codec.h"
#include "muster/data_set.h"

namespace muster {
namespace {

const char* NameOf(TensorType type) {
  switch (type) {
    case TensorType::kFloat32: return "float32";
    case TensorType::kFloat64: return "float64";
    case TensorType::kFloat16: return "float16";
    case TensorType::kBfloat16: return "bfloat16";
    case TensorType::kInt64: return "int64";
    case TensorType::kInt32: return "int32";
    case TensorType::kInt16: return "int16";
    case TensorType::kInt8: return "int8";
    case TensorType::kUint8: return "uint8";
    case TensorType::kBool: return "bool";
  }
  return "";
}

absl::Status Print(const std::string& file) {
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  MUSTER_ASSIGN_OR_RETURN(const JobSpec spec, ParseJobYaml(text, file, {}));
  MUSTER_ASSIGN_OR_RETURN(const auto set, OpenDataSet(spec.training.data, spec.training.seed));
  std::vector<uint64_t> ids(set->Samples());
  std::iota(ids.begin(), ids.end(), 0);
  MUSTER_ASSIGN_OR_RETURN(const Batch batch, set->Read(0, ids));
  for (const DataField& field : set->Fields())
    std::cout << field.name << " " << NameOf(field.type) << " " << ids.size()
              << (field.shape.empty() ? "" : ",") << absl::StrJoin(field.shape, ",") << "\n";
  std::cout << "\n";
  for (size_t f = 0; f < set->Fields().size(); ++f)
    std::cout.write(reinterpret_cast<const char*>(batch.of(f).data()),
                    static_cast<std::streamsize>(batch.of(f).size()));
  return absl::OkStatus();
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: print_data_set JOB.yaml\n";
    return 64;
  }
  const absl::Status status = muster::Print(argv[1]);
  if (status.ok()) return 0;
  std::cerr << status << "\n";
  return 1;
}
