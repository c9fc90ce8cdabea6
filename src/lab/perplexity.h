// Perplexity as mlx-lm measures it, and how far one model's predictions are from another's on the same text.
//
// The tokens are cut into windows of one length, the rest dropped; a window is a sequence of its own. Every
// token but a window's first counts: loss = −ln p(token | what stands before it in the window), p from fp32
// logits. perplexity = exp(mean loss), its error = perplexity · std(loss, ddof 1) / √count.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace rafter::lab {

struct WindowOptions {
  int64_t length = 512;   // tokens, 2 or more
  int64_t windows = 256;  // at most; 0: all
};

// Views of `tokens`. Error (invalid_argument): not one whole window.
base::Result<std::vector<std::span<const int32_t>>> cut_windows(std::span<const int32_t> tokens,
                                                                const WindowOptions& options);

struct PerplexityFigures {
  double perplexity = 0, error = 0;  // one standard error
  double mean_loss = 0;              // nats
  int64_t tokens = 0;                // that were predicted
};

// KL(reference ‖ model) per predicted token, nats.
struct KlFigures {
  double mean = 0;
  double p50 = 0, p90 = 0, p99 = 0, largest = 0;  // the least value that this share of tokens does not exceed
  double same_choice = 0;                         // share of tokens with the same most likely one
};

// Told after every step; an error it returns stops the work.
using WindowProgress = std::function<base::Status(int64_t done_tokens, int64_t total_tokens)>;

struct Comparison {
  PerplexityFigures model;
  PerplexityFigures reference;  // zeros without one
  KlFigures kl;                 // zeros without one
};

// Runs the windows through `model`, and through `reference` (null: none), whose vocabularies must be one.
// Errors: invalid_argument (vocabularies differ), the engines'.
base::Result<Comparison> measure_perplexity_blocking(engine::Engine& model, engine::Engine* reference,
                                                     std::span<const std::span<const int32_t>> windows,
                                                     const WindowProgress& progress = {});

// What a sorted list of per-token divergences comes to. `same` of them have the same choice.
KlFigures summarize_kl(std::vector<double> divergences, int64_t same);

}  // namespace rafter::lab
