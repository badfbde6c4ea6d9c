// Prints all samples of the data set that a job describes, for a script that knows what they are:
// "name type dimensions" for each field, an empty line, and then the bytes of each field.
//
// usage: print_data_set JOB.yaml
//        print_data_set NAME TYPE DIMENSIONS FILE…    of a data set in memory: FILE holds a field's
//                                                     rows, DIMENSIONS are those of one: 2,3 or -
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "lib/base/status.h"
#include "lib/wire/job_codec.h"
#include "muster/data_set.h"

namespace muster {
namespace {

absl::StatusOr<std::string> ContentOf(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return absl::NotFoundError(file);
  return std::string{std::istreambuf_iterator<char>(in), {}};
}

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

absl::StatusOr<std::unique_ptr<DataSet>> OfJob(const std::string& file) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ContentOf(file));
  MUSTER_ASSIGN_OR_RETURN(const JobSpec spec, ParseJobYaml(text, file, {}));
  return OpenDataSet(spec.training.data, spec.training.seed);
}

absl::StatusOr<std::unique_ptr<DataSet>> InMemory(absl::Span<char* const> words) {
  std::vector<DataField> fields;
  std::vector<std::string> rows;
  for (; words.size() >= 4; words.remove_prefix(4)) {
    DataField& field = fields.emplace_back(DataField{.name = words[0]});
    int type = 0;
    while (NameOf(static_cast<TensorType>(type)) != absl::string_view(words[1]))
      if (++type > static_cast<int>(TensorType::kBool)) return absl::NotFoundError(words[1]);
    field.type = static_cast<TensorType>(type);
    for (const absl::string_view size : absl::StrSplit(words[2], ','))
      if (int64_t number = 0; absl::SimpleAtoi(size, &number)) field.shape.push_back(number);
    MUSTER_ASSIGN_OR_RETURN(std::string bytes, ContentOf(words[3]));
    rows.push_back(std::move(bytes));
  }
  return DataSetInMemory(fields, std::move(rows));
}

absl::Status Print(absl::StatusOr<std::unique_ptr<DataSet>> opened) {
  MUSTER_ASSIGN_OR_RETURN(const auto set, std::move(opened));
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
  if (argc != 2 && (argc < 5 || argc % 4 != 1)) {
    std::cerr << "usage: print_data_set JOB.yaml, or NAME TYPE DIMENSIONS FILE…\n";
    return 64;
  }
  const absl::Status status =
      muster::Print(argc == 2 ? muster::OfJob(argv[1])
                              : muster::InMemory({argv + 1, static_cast<size_t>(argc - 1)}));
  if (status.ok()) return 0;
  std::cerr << status << "\n";
  return 1;
}
