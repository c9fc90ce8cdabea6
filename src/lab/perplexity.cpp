#include "lab/perplexity.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "decode/softmax.h"

namespace rafter::lab {
namespace {

using base::Error;
using base::ErrorCode;

// Rows of a step: each keeps its logits, and those take memory.
constexpr int64_t kMostRows = 64;

// ln of the sum of exponentials: what a logit is compared with to be a log-probability.
double normalizer(std::span<const float> logits) {
  return decode::log_sum_exp(logits, decode::find_largest(logits).value);
}

double divergence(std::span<const float> reference, double reference_normalizer, std::span<const float> model,
                  double model_normalizer) {
  double sum = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double log_p = reference[i] - reference_normalizer;
    sum += std::exp(log_p) * (log_p - (model[i] - model_normalizer));
  }
  return sum;
}

PerplexityFigures summarize(const std::vector<double>& losses) {
  PerplexityFigures figures;
  figures.tokens = static_cast<int64_t>(losses.size());
  const double count = static_cast<double>(losses.size());
  for (double loss : losses) figures.mean_loss += loss / count;
  double squares = 0;
  for (double loss : losses) squares += (loss - figures.mean_loss) * (loss - figures.mean_loss);
  figures.perplexity = std::exp(figures.mean_loss);
  if (losses.size() > 1)
    figures.error = figures.perplexity * std::sqrt(squares / (count - 1)) / std::sqrt(count);
  return figures;
}

// The predictions of up to kMostRows positions of a window, left as the engine's logits.
base::Status step(engine::Engine& engine, int32_t sequence, std::span<const int32_t> window, int64_t begin,
                  int64_t end) {
  std::vector<engine::Row> rows;
  for (int64_t t = begin; t < end; ++t) {
    rows.push_back({window[static_cast<size_t>(t)], static_cast<int32_t>(t), sequence, true, 0});
  }
  return engine.step(rows);
}

// A sequence that is given back.
class Sequence {
 public:
  static base::Result<Sequence> create(engine::Engine* engine) {
    if (engine == nullptr) return Sequence(nullptr, -1);
    RAFTER_ASSIGN(const int32_t id, engine->create_sequence());
    return Sequence(engine, id);
  }
  Sequence(Sequence&& other) noexcept : engine_(std::exchange(other.engine_, nullptr)), id_(other.id_) {}
  Sequence& operator=(Sequence&&) = delete;
  ~Sequence() {
    if (engine_ != nullptr) engine_->release_sequence(id_);
  }
  int32_t id() const { return id_; }

 private:
  Sequence(engine::Engine* engine, int32_t id) : engine_(engine), id_(id) {}
  engine::Engine* engine_;
  int32_t id_;
};

class Measurement {
 public:
  Measurement(engine::Engine& model, engine::Engine* reference) : model_(model), reference_(reference) {}

  base::Status run_window(std::span<const int32_t> window, const std::function<base::Status(int64_t)>& done) {
    RAFTER_ASSIGN(const Sequence sequence, Sequence::create(&model_));
    RAFTER_ASSIGN(const Sequence other, Sequence::create(reference_));
    const auto last = static_cast<int64_t>(window.size()) - 1;  // predicted, never fed
    const int64_t rows = std::min<int64_t>(kMostRows, model_.options().row_capacity);
    for (int64_t begin = 0; begin < last; begin += rows) {
      const int64_t end = std::min(begin + rows, last);
      RAFTER_TRY(step(model_, sequence.id(), window, begin, end));
      if (reference_ != nullptr) RAFTER_TRY(step(*reference_, other.id(), window, begin, end));
      for (int64_t t = begin; t < end; ++t)
        add(static_cast<int>(t - begin), window[static_cast<size_t>(t + 1)]);
      RAFTER_TRY(done(end - begin));
    }
    return {};
  }

  Comparison figures() {
    Comparison comparison;
    comparison.model = summarize(losses_);
    if (reference_ == nullptr) return comparison;
    comparison.reference = summarize(reference_losses_);
    comparison.kl = summarize_kl(std::move(divergences_), same_);
    return comparison;
  }

 private:
  void add(int row, int32_t token) {
    const std::span<const float> logits = model_.logits(row);
    const double norm = normalizer(logits);
    losses_.push_back(norm - logits[static_cast<size_t>(token)]);
    if (reference_ == nullptr) return;
    const std::span<const float> truth = reference_->logits(row);
    const double truth_norm = normalizer(truth);
    reference_losses_.push_back(truth_norm - truth[static_cast<size_t>(token)]);
    divergences_.push_back(divergence(truth, truth_norm, logits, norm));
    same_ += decode::find_largest(truth).index == decode::find_largest(logits).index;
  }

  engine::Engine& model_;
  engine::Engine* reference_;
  std::vector<double> losses_, reference_losses_, divergences_;
  int64_t same_ = 0;
};

}  // namespace

base::Result<std::vector<std::span<const int32_t>>> cut_windows(std::span<const int32_t> tokens,
                                                                const WindowOptions& options) {
  const auto length = static_cast<size_t>(options.length);
  if (options.length < 2 || tokens.size() < length) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("the text has {} tokens and a window {}", tokens.size(), options.length),
                 "perplexity", "use a longer text or a shorter --sequence-length, of 2 or more"};
  }
  std::vector<std::span<const int32_t>> windows;
  for (size_t begin = 0; begin + length <= tokens.size(); begin += length) {
    if (options.windows > 0 && static_cast<int64_t>(windows.size()) == options.windows) break;
    windows.push_back(tokens.subspan(begin, length));
  }
  return windows;
}

base::Result<Comparison> measure_perplexity_blocking(engine::Engine& model, engine::Engine* reference,
                                                     std::span<const std::span<const int32_t>> windows,
                                                     const WindowProgress& progress) {
  if (reference != nullptr && reference->vocabulary_size() != model.vocabulary_size()) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("vocabularies of {} and {} tokens cannot be compared", model.vocabulary_size(),
                             reference->vocabulary_size()),
                 "--kl-against", "name a checkpoint of the same model"};
  }
  int64_t done = 0, total = 0;
  for (const auto& window : windows) total += static_cast<int64_t>(window.size()) - 1;
  Measurement measurement(model, reference);
  for (const auto& window : windows) {
    RAFTER_TRY(measurement.run_window(window, [&](int64_t tokens) {
      done += tokens;
      return progress ? progress(done, total) : base::Status{};
    }));
  }
  return measurement.figures();
}

KlFigures summarize_kl(std::vector<double> divergences, int64_t same) {
  KlFigures figures;
  if (divergences.empty()) return figures;
  std::sort(divergences.begin(), divergences.end());
  const double count = static_cast<double>(divergences.size());
  for (double value : divergences) figures.mean += value / count;
  const auto quantile = [&](double share) {
    return divergences[static_cast<size_t>(std::max(0.0, std::ceil(share * count) - 1))];
  };
  figures.p50 = quantile(0.5);
  figures.p90 = quantile(0.9);
  figures.p99 = quantile(0.99);
  figures.largest = divergences.back();
  figures.same_choice = static_cast<double>(same) / count;
  return figures;
}

}  // namespace rafter::lab
