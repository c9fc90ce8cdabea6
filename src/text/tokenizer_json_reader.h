// Reads the JSON of a tokenizer file: the vocabulary and the merges, which are nearly all of it, straight
// into vectors, the rest into a document. For implementation files only (includes nlohmann/json.hpp).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace rafter::text {

struct TokenizerDocument {
  nlohmann::json rest;      // an object; model.vocab is left out, model.merges if it is an array
  bool has_vocab = false;   // as an object
  bool has_scores = false;  // as an array of pieces with scores
  bool has_merges = false;
  std::vector<std::pair<std::string, int64_t>> vocab;       // in the order of the file
  std::vector<std::pair<std::string, double>> scores;       // in the order of the file
  std::vector<std::pair<std::string, std::string>> merges;  // in order of rank
};

// Error: not a JSON object, nested too deep, or far more values than a tokenizer has.
base::Result<TokenizerDocument> read_tokenizer_document(std::string_view json, const std::string& where);

}  // namespace rafter::text
