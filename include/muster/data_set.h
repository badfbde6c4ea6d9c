// Data sets: samples with numbers from 0, read from the files that a job names (`data.paths`,
// docs/data.md). The same samples with the same bytes on every machine that holds the same files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "muster/data_field.h"
#include "muster/task_options.h"

namespace muster {

// Samples side by side: of each field an array whose first dimension is that of the samples, row
// after row, in the byte order of this machine. Not written before; each field is 64-byte aligned.
class Batch {
 public:
  Batch() = default;
  // std::bad_alloc where there is no memory for it.
  Batch(const std::vector<DataField>& fields, size_t samples);

  size_t samples() const { return samples_; }
  // All rows of a field.
  absl::Span<std::byte> of(size_t field) { return {memory_.get() + places_[field].at, all(field)}; }
  absl::Span<const std::byte> of(size_t field) const {
    return {memory_.get() + places_[field].at, all(field)};
  }
  // One row of it.
  absl::Span<std::byte> row(size_t field, size_t sample) {
    return of(field).subspan(sample * places_[field].row_bytes, places_[field].row_bytes);
  }
  absl::Span<const std::byte> row(size_t field, size_t sample) const {
    return of(field).subspan(sample * places_[field].row_bytes, places_[field].row_bytes);
  }

  static size_t BytesFor(const std::vector<DataField>& fields, size_t samples);

 private:
  struct Place {
    size_t at = 0;
    size_t row_bytes = 0;
  };
  struct Free {
    void operator()(std::byte* memory) const;
  };
  size_t all(size_t field) const { return samples_ * places_[field].row_bytes; }

  size_t samples_ = 0;
  std::vector<Place> places_;  // by field
  std::unique_ptr<std::byte[], Free> memory_;
};

// That a sample's own bytes are bad, such as those of a broken image: on every machine that holds
// the same files, and whenever it is read. Such a sample, and no other, is left out by
// `data.on_bad_sample: skip`. kDataLoss.
absl::Status BadSample(absl::string_view why);
// Also of one that was given a prefix (Prefix), or another sample's beside it.
bool IsBadSample(const absl::Status& status);

// Does not change, and may be read by any number of threads at a time.
class DataSet {
 public:
  virtual ~DataSet();
  virtual const std::vector<DataField>& Fields() const = 0;  // inputs first; a label comes last
  virtual uint64_t Samples() const = 0;                      // at least 1
  // SHA-256 of all that the samples are made of: 64 lower-case digits.
  virtual std::string ContentHash() const = 0;
  // What could not be read and is no part of it, for people; empty: nothing.
  virtual std::string LeftOut() const { return ""; }
  // Writes the samples ids[0], ids[1], … to the rows from `first` of `batch`, which was made of
  // Fields(). Threads may fill different rows of one batch. The epoch matters where samples are
  // changed at random (`data.crop`, `data.flip`); with one below 0 none is.
  // kInvalidArgument: there is no such sample. kDataLoss: it cannot be read, or a file has changed;
  // the message names the file and the place. A BadSample is no reason to fail where others of
  // `ids` are asked for alone.
  virtual absl::Status ReadInto(int64_t epoch, absl::Span<const uint64_t> ids, Batch& batch,
                                size_t first) const = 0;
  // Where a sample lies, for people: "a.npy: row 7 (from 0)"; empty: that is not known.
  virtual std::string PlaceOf(uint64_t /*id*/) const { return ""; }

  absl::StatusOr<Batch> Read(int64_t epoch, absl::Span<const uint64_t> ids) const;
};

// Whether a sample is left out of training, to look at how well the model does on it: a function of
// (data.split_seed, data.validation_share, the sample's number among all).
bool IsForValidation(const DataSpec& data, uint64_t id);
// Whether a sample is one of options.part, for a task that makes its samples itself: `id` is its
// number among those of all files of options.DataOfPart().
bool IsOfPart(const TaskOptions& options, uint64_t id);

// The data set that `data` describes. Samples of a part have numbers of their own, in the order
// that they have among all. Only those for training are changed at random, by (`seed`, epoch,
// number among all).
// kFailedPrecondition: `data` says what these files cannot be, such as a column that they do not
// have; the message names the field. kInvalidArgument: a path that is missing, or no sample at all.
// kDataLoss: a file is broken; the message names it and the place. kResourceExhausted: it needs
// more memory than this process may have.
absl::StatusOr<std::unique_ptr<DataSet>> OpenDataSet(const DataSpec& data, uint64_t seed,
                                                     DataPart part = DataPart::kTraining);

// The one that a task's samples come from: options.data, of options.part. In files of
// options.validation_paths columns and names of classes are those of options.data.paths, which are
// read for it, too. kDataLoss: those have no such name. kFailedPrecondition, too: it is of
// DataPart::kNone.
absl::StatusOr<std::unique_ptr<DataSet>> OpenDataSet(const TaskOptions& options);

// Of the samples of a data set of one's own those that are of options.part. They get numbers of
// their own, in their order. Where options.validation_paths are what is measured with, and for
// training without data.validation_share, it is all of `whole`. kInvalidArgument: there is none.
absl::StatusOr<std::unique_ptr<DataSet>> PartOfDataSet(std::unique_ptr<DataSet> whole,
                                                       const TaskOptions& options);

// Samples that stand in memory: rows[f] holds those of fields[f], one after the other.
// kInvalidArgument: no sample, or a field whose bytes are no rows, or not as many as others have.
absl::StatusOr<std::unique_ptr<DataSet>> DataSetInMemory(const std::vector<DataField>& fields,
                                                         std::vector<std::string> rows);

}  // namespace muster
