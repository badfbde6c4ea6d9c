// From one language to another, line by line: an encoder-decoder Transformer (Vaswani and others,
// "Attention Is All You Need", 2017) over byte-pair tokens (Sennrich and others, "Neural Machine
// Translation of Rare Words with Subword Units", 2016). The tokenizer is trained from the text
// itself, once on each machine. Which pairs of tokens are merged stands in a buffer of the model,
// too: so a checkpoint reads other text as it was trained to, and who loads the weights has the
// tokenizer.
#include <muster/corpus.h>
#include <muster/data_set.h>
#include <muster/plugin.h>
#include <muster/torch/module_task.h>
#include <torch/nn.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using Tokens = std::vector<int64_t>;
using TokenPair = std::pair<int64_t, int64_t>;

constexpr int64_t kPadding = 0, kBegin = 1, kEnd = 2, kFirstByte = 3,
                  kFirstMerge = kFirstByte + 256;
constexpr int64_t kLeftOut = -100;  // of the loss

struct Line {
  std::string source;
  std::string target;
};

// A word has the space before it.
std::vector<std::string_view> WordsOf(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin + 1), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

Tokens BytesOf(std::string_view word) {
  Tokens tokens;
  for (const char byte : word) tokens.push_back(kFirstByte + static_cast<unsigned char>(byte));
  return tokens;
}

void Merge(Tokens& tokens, TokenPair pair, int64_t into) {
  size_t kept = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool is_pair = i + 1 < tokens.size() && TokenPair(tokens[i], tokens[i + 1]) == pair;
    tokens[kept++] = is_pair ? into : tokens[i];
    if (is_pair) ++i;
  }
  tokens.resize(kept);
}

// The pair that occurs most often becomes a token, again and again; of several, the first by
// number.
std::vector<TokenPair> TrainMerges(const std::vector<Line>& lines, int64_t most,
                                   const std::function<void(int64_t)>& told) {
  std::map<std::string_view, int64_t> counts;
  for (const Line& line : lines)
    for (const std::string* side : {&line.source, &line.target})
      for (const std::string_view word : WordsOf(*side)) ++counts[word];
  std::vector<std::pair<Tokens, int64_t>> words;
  for (const auto& [word, count] : counts) words.emplace_back(BytesOf(word), count);
  std::vector<TokenPair> merges;
  while (static_cast<int64_t>(merges.size()) < most) {
    std::map<TokenPair, int64_t> pairs;
    for (const auto& [tokens, count] : words)
      for (size_t i = 0; i + 1 < tokens.size(); ++i) pairs[{tokens[i], tokens[i + 1]}] += count;
    const auto best =
        std::max_element(pairs.begin(), pairs.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best == pairs.end() || best->second < 2) break;
    for (auto& [tokens, count] : words)
      Merge(tokens, best->first, kFirstMerge + static_cast<int64_t>(merges.size()));
    merges.push_back(best->first);
    told(static_cast<int64_t>(merges.size()));
  }
  return merges;
}

class Tokenizer {
 public:
  explicit Tokenizer(std::vector<TokenPair> merges) : merges_(std::move(merges)) {
    for (size_t i = 0; i < merges_.size(); ++i)
      ranks_.emplace(merges_[i], kFirstMerge + static_cast<int64_t>(i));
  }

  const std::vector<TokenPair>& merges() const { return merges_; }

  Tokens Encode(std::string_view text) {
    Tokens all;
    for (const std::string_view word : WordsOf(text)) {
      const auto [known, is_new] = words_.try_emplace(std::string(word));
      if (is_new) known->second = EncodeWord(word);
      all.insert(all.end(), known->second.begin(), known->second.end());
    }
    return all;
  }

  std::string Decode(const Tokens& tokens) const {
    std::string text;
    for (const int64_t token : tokens) Append(token, text);
    return text;
  }

 private:
  // Pairs are merged in the order in which they were learned.
  Tokens EncodeWord(std::string_view word) const {
    Tokens tokens = BytesOf(word);
    while (true) {
      auto first = ranks_.end();
      for (size_t i = 0; i + 1 < tokens.size(); ++i) {
        const auto found = ranks_.find({tokens[i], tokens[i + 1]});
        if (found != ranks_.end() && (first == ranks_.end() || found->second < first->second))
          first = found;
      }
      if (first == ranks_.end()) return tokens;
      Merge(tokens, first->first, first->second);
    }
  }

  // A merge is of tokens before it.
  void Append(int64_t token, std::string& text) const {
    if (token >= kFirstMerge) {
      const TokenPair& pair = merges_[static_cast<size_t>(token - kFirstMerge)];
      Append(pair.first, text);
      Append(pair.second, text);
    } else if (token >= kFirstByte) {
      text.push_back(static_cast<char>(token - kFirstByte));
    }
  }

  const std::vector<TokenPair> merges_;
  std::map<TokenPair, int64_t> ranks_;
  std::map<std::string, Tokens> words_;  // that were seen already
};

at::Tensor ToTensor(const std::vector<TokenPair>& merges, int64_t rows) {
  at::Tensor tensor = at::full({rows, 2}, -1, at::kLong);
  int64_t* values = tensor.mutable_data_ptr<int64_t>();
  for (const TokenPair& pair : merges) {
    *values++ = pair.first;
    *values++ = pair.second;
  }
  return tensor;
}

// Up to the first row that is none.
std::vector<TokenPair> FromTensor(const at::Tensor& tensor) {
  const int64_t* values = tensor.const_data_ptr<int64_t>();
  std::vector<TokenPair> merges;
  for (int64_t row = 0; row < tensor.size(0); ++row) {
    const TokenPair pair = {values[2 * row], values[2 * row + 1]};
    const auto is_token = [&](int64_t t) { return t >= kFirstByte && t < kFirstMerge + row; };
    if (!is_token(pair.first) || !is_token(pair.second)) break;
    merges.push_back(pair);
  }
  return merges;
}

// The files of data.paths, and of their lines those of the part that the task is made for.
struct Text {
  explicit Text(const muster::TaskOptions& options) {
    const muster::Corpus corpus = muster::ValueOrThrow(muster::ReadCorpus(options.DataOfPart()));
    left_out = corpus.left_out;
    check_files = corpus.check_files;
    hash = muster::ContentHash({corpus.bytes});
    int64_t number = 0;
    for (size_t begin = 0; begin < corpus.bytes.size(); ++number) {
      const size_t end = std::min(corpus.bytes.find_first_of(std::string_view("\n\0", 2), begin),
                                  corpus.bytes.size());
      Add(std::string_view(corpus.bytes).substr(begin, end - begin), number + 1);
      begin = end + 1;
    }
    if (lines.empty())
      throw muster::TaskError(absl::InvalidArgumentError(
          "data.paths: there is no line of a source, a tab and a target"));
    KeepPart(options);
    if (lines.empty())
      throw muster::TaskError(absl::InvalidArgumentError(
          "data.validation_share: there are so few lines that one part of them has none"));
  }

  std::vector<Line> lines;
  std::string hash;
  std::string left_out;
  std::function<absl::Status()> check_files;

 private:
  void Add(std::string_view line, int64_t number) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) return;
    const size_t tab = line.find('\t');
    if (tab == line.npos || tab == 0 || tab + 1 == line.size() ||
        line.find('\t', tab + 1) != line.npos)
      throw muster::TaskError(absl::DataLossError(
          "data.paths: line " + std::to_string(number) +
          " of all files is not a source, a tab and a target; other columns are to be cut away"));
    lines.push_back({std::string(line.substr(0, tab)), std::string(line.substr(tab + 1))});
  }

  // Those that data.validation_share leaves out of training are measured with.
  void KeepPart(const muster::TaskOptions& options) {
    std::vector<Line> kept;
    for (size_t id = 0; id < lines.size(); ++id)
      if (muster::IsOfPart(options, id)) kept.push_back(std::move(lines[id]));
    lines = std::move(kept);
  }
};

// What is prepared: a merge in each line of a file.
std::string MergesFile(const std::string& folder) { return folder + "/merges"; }

// Without a folder none are known yet: the model's state brings them.
at::Tensor ReadMerges(const std::string& folder, int64_t rows) {
  if (folder.empty()) return ToTensor({}, rows);
  std::ifstream in(MergesFile(folder));
  std::vector<TokenPair> merges;
  for (TokenPair pair; in >> pair.first >> pair.second;) merges.push_back(pair);
  if (!in.eof() || static_cast<int64_t>(merges.size()) > rows)
    throw muster::TaskError(absl::DataLossError(MergesFile(folder) + " is damaged: delete it"));
  return ToTensor(merges, rows);
}

struct NetImpl : torch::nn::Module {
  NetImpl(const muster::TaskOptions& options, const at::Tensor& the_merges)
      : width(options.Integer("width")),
        tokens(register_module("tokens",
                               torch::nn::Embedding(kFirstMerge + the_merges.size(0), width))),
        positions(register_parameter("positions",
                                     at::randn({options.Integer("length") + 1, width}) * 0.5)),
        transformer(register_module(
            "transformer",
            torch::nn::Transformer(torch::nn::TransformerOptions(width, options.Integer("heads"),
                                                                 options.Integer("layers"),
                                                                 options.Integer("layers"))
                                       .dim_feedforward(options.Integer("feedforward"))
                                       .dropout(options.Real("dropout"))))),
        head(register_module("head", torch::nn::Linear(width, kFirstMerge + the_merges.size(0)))),
        merges(register_buffer("merges", the_merges.clone())) {}

  // Tokens, one row for each line; gives scores of what comes behind each token of the target.
  at::Tensor forward(const at::Tensor& source, const at::Tensor& target) {
    const at::Tensor is_padding = source.eq(kPadding);
    const at::Tensor is_later =
        torch::nn::TransformerImpl::generate_square_subsequent_mask(target.size(1));
    const at::Tensor out = transformer->forward(Embed(source), Embed(target), {}, is_later, {},
                                                is_padding, target.eq(kPadding), is_padding);
    return head(out.transpose(0, 1));
  }
  at::Tensor Embed(const at::Tensor& ids) {
    return (tokens(ids) + positions.narrow(0, 0, ids.size(1))).transpose(0, 1);
  }

  const int64_t width;
  torch::nn::Embedding tokens;
  at::Tensor positions;
  torch::nn::Transformer transformer;
  torch::nn::Linear head;
  at::Tensor merges;
};
TORCH_MODULE(Net);

class Translate final : public muster::torch::ModuleTask<Net>, public muster::Generates {
 public:
  static absl::Status Prepare(const muster::TaskOptions& options,
                              const muster::Preparation& preparation) {
    const int64_t most = options.Integer("merges");
    const std::vector<TokenPair> merges = TrainMerges(Text(options).lines, most, [&](int64_t made) {
      preparation.progress(static_cast<double>(made) / static_cast<double>(most),
                           "merge " + std::to_string(made) + " of " + std::to_string(most));
    });
    std::ofstream out(MergesFile(preparation.folder));
    for (const TokenPair& pair : merges) out << pair.first << ' ' << pair.second << '\n';
    if (!out.flush())
      return absl::ResourceExhaustedError("the merges cannot be written: free some space");
    return absl::OkStatus();
  }

  explicit Translate(const muster::TaskOptions& options)
      : Translate(options, ReadMerges(options.prepared, options.Integer("merges"))) {}

  uint64_t SampleCount() const override { return text_->lines.size(); }
  std::string DataHash() const override { return text_->hash; }
  std::string DataLeftOut() const override { return text_->left_out; }

  // Sources, targets behind the begin, and targets up to the end.
  Tensors MakeBatch(const at::Tensor& samples) override {
    if (const absl::Status changed = text_->check_files(); !changed.ok())
      throw muster::TaskError(changed);
    std::vector<Tokens> sources, begun, ended;
    const int64_t* ids = samples.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < samples.numel(); ++i) {
      const Line& line = text_->lines[static_cast<size_t>(ids[i])];
      sources.push_back(Ended(line.source));
      ended.push_back(Ended(line.target));
      begun.push_back(ended.back());
      begun.back().insert(begun.back().begin(), kBegin);
      begun.back().pop_back();
    }
    return {Rows(sources, kPadding), Rows(begun, kPadding), Rows(ended, kLeftOut)};
  }

  at::Tensor Loss(Net& net, const Tensors& batch) override {
    return LossOf(net(batch[0], batch[1]), batch[2], label_smoothing_);
  }
  int64_t Weight(const Tensors& batch) const override {
    return batch[2].ne(kLeftOut).sum().item<int64_t>();
  }

  std::vector<muster::TaskMetric> Metrics() const override {
    return {{"loss"},
            {"perplexity", muster::TaskMetricKind::kExpOfMean},
            {"token_accuracy"},
            {"exact_match"}};
  }
  std::vector<muster::TaskMetricSum> Measure(Net& net, const Tensors& batch) override {
    const at::Tensor scores = net(batch[0], batch[1]);
    const auto tokens = static_cast<double>(Weight(batch));
    const auto lines = static_cast<double>(batch[0].size(0));
    return {{LossOf(scores, batch[2], label_smoothing_).item<double>(), tokens},
            {LossOf(scores, batch[2], 0).item<double>(), tokens},
            {scores.argmax(2).eq(batch[2]).sum().item<double>(), tokens},
            {ExactMatches(net, batch), lines}};
  }

  absl::StatusOr<std::string> Generate(absl::Span<const float> parameters,
                                       const std::string& prompt, size_t bytes, uint64_t,
                                       const muster::TextListener&) override {
    if (prompt.empty())
      return absl::FailedPreconditionError("give the line that is to be translated (--prompt)");
    std::string text;
    const absl::Status done = WithState(parameters, [&] {
      // What follows the source in a line of the data.
      text = "\t" + TokenizerNow().Decode(Greedy(net(), Rows({Ended(prompt)}, kPadding))[0]);
    });
    if (!done.ok()) return done;
    return text.substr(0, bytes);
  }

 private:
  Translate(const muster::TaskOptions& options, const at::Tensor& merges)
      : ModuleTask(options, [=] { return Net(options, merges); }),
        text_(options.part == muster::DataPart::kNone ? nullptr
                                                      : std::make_unique<const Text>(options)),
        length_(options.Integer("length")),
        label_smoothing_(options.Real("label_smoothing")) {}

  // By the model's own merges, which may be those of a checkpoint.
  Tokenizer& TokenizerNow() {
    std::vector<TokenPair> merges = FromTensor(net()->merges);
    if (!tokenizer_ || tokenizer_->merges() != merges) tokenizer_.emplace(std::move(merges));
    return *tokenizer_;
  }

  // A longer line is cut.
  Tokens Ended(const std::string& text) {
    Tokens tokens = TokenizerNow().Encode(text);
    tokens.resize(std::min(tokens.size(), static_cast<size_t>(length_ - 1)));
    tokens.push_back(kEnd);
    return tokens;
  }

  static at::Tensor Rows(const std::vector<Tokens>& lists, int64_t fill) {
    size_t longest = 0;
    for (const Tokens& list : lists) longest = std::max(longest, list.size());
    const auto columns = static_cast<int64_t>(longest);
    at::Tensor rows = at::full({static_cast<int64_t>(lists.size()), columns}, fill, at::kLong);
    int64_t* row = rows.mutable_data_ptr<int64_t>();
    for (const Tokens& list : lists) {
      std::copy(list.begin(), list.end(), row);
      row += columns;
    }
    return rows;
  }

  static at::Tensor LossOf(const at::Tensor& scores, const at::Tensor& targets, double smoothing) {
    return at::cross_entropy_loss(scores.flatten(0, 1), targets.flatten(), {}, at::Reduction::Sum,
                                  kLeftOut, smoothing);
  }

  // For each source the token with the highest score, until the end comes or the line is full.
  std::vector<Tokens> Greedy(Net& net, const at::Tensor& sources) const {
    at::Tensor begun = at::full({sources.size(0), 1}, kBegin, at::kLong);
    at::Tensor is_done = at::zeros({sources.size(0)}, at::kBool);
    while (begun.size(1) <= length_ && !is_done.all().item<bool>()) {
      const at::Tensor next = net(sources, begun).select(1, -1).argmax(1);
      // Rows that have ended are no longer looked at, and go on with what is no padding.
      begun = at::cat({begun, next.masked_fill(is_done, kEnd).unsqueeze(1)}, 1);
      is_done = is_done.logical_or(next.eq(kEnd));
    }
    std::vector<Tokens> lists;
    for (int64_t r = 0; r < begun.size(0); ++r) {
      const int64_t* row = begun.const_data_ptr<int64_t>() + r * begun.size(1);
      lists.emplace_back(row + 1, std::find(row + 1, row + begun.size(1), kEnd));
    }
    return lists;
  }

  double ExactMatches(Net& net, const Tensors& batch) const {
    const std::vector<Tokens> said = Greedy(net, batch[0]);
    double matches = 0;
    for (size_t r = 0; r < said.size(); ++r) {
      const int64_t* row =
          batch[2].const_data_ptr<int64_t>() + static_cast<int64_t>(r) * batch[2].size(1);
      if (Tokens(row, std::find(row, row + batch[2].size(1), kEnd)) == said[r]) ++matches;
    }
    return matches;
  }

  const std::unique_ptr<const Text> text_;  // null: it is made to generate alone
  const int64_t length_;
  const double label_smoothing_;
  std::optional<Tokenizer> tokenizer_;
};

}  // namespace

using muster::TaskParameter;
MUSTER_PLUGIN(muster::TypeOf<Translate>(
    {.name = "translate",
     .help = "an encoder-decoder Transformer on lines of a source, a tab and a target",
     .parameters =
         {TaskParameter::Integer("width", 64, 1, 4096,
                                 "size of a token's vector; a multiple of heads"),
          TaskParameter::Integer("heads", 4, 1, 64, "attention heads"),
          TaskParameter::Integer("layers", 1, 1, 64, "blocks of the encoder, and of the decoder"),
          TaskParameter::Integer("feedforward", 128, 1, 65536, "inner size of a block"),
          TaskParameter::Integer("merges", 200, 1, 65536, "tokens beside the 256 bytes"),
          TaskParameter::Integer("length", 64, 2, 4096, "tokens of a line; longer ones are cut"),
          TaskParameter::Real("dropout", 0.1, 0, 0.9, "share of activations dropped in training"),
          TaskParameter::Real("label_smoothing", 0, 0, 0.9,
                              "share of a token's weight that goes to all tokens")},
     .data_needed = true,
     .multiple = "width",
     .divisor = "heads",
     .model_holds_all = true}))
