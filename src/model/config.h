// A checkpoint's configuration under Hugging Face's key names, whatever the container: config.json as it is
// (the language part of a multimodal one), or GGUF metadata translated once, here and nowhere else.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/checkpoint.h"

namespace rafter::model {

class Config {
 public:
  // Errors: invalid_data (malformed JSON, a missing or ill-typed required key).
  static base::Result<Config> from_checkpoint(const format::Checkpoint& checkpoint);
  // For tests and `--shape`: the text of a config.json.
  static base::Result<Config> parse(std::string_view json, const std::string& where);

  const std::string& model_type() const { return model_type_; }
  const std::string& where() const { return where_; }
  bool from_gguf() const { return from_gguf_; }

  bool has(std::string_view key) const;  // present and not null
  // Each is an error that names file and key when the key is present with another type or out of range, and
  // when it is absent and no fallback is given.
  base::Result<int64_t> integer(std::string_view key,
                                std::optional<int64_t> fallback = {}) const;  // 0 … 2^31 − 1
  base::Result<double> number(std::string_view key, std::optional<double> fallback = {}) const;  // finite
  base::Result<bool> boolean(std::string_view key, std::optional<bool> fallback = {}) const;
  base::Result<std::string> string(std::string_view key, std::optional<std::string> fallback = {}) const;
  base::Result<std::vector<std::string>> strings(std::string_view key) const;  // empty when absent
  base::Result<std::vector<double>> numbers(std::string_view key) const;       // empty when absent
  // One for each of `layers`: the integer under `key`, or the list's. As integer() else.
  base::Result<std::vector<int64_t>> integers_per_layer(std::string_view key, int64_t layers) const;
  // The object under `key` as a Config of its own; an empty one when absent.
  base::Result<Config> object(std::string_view key) const;

 private:
  struct Json;
  std::shared_ptr<const Json> json_;
  std::string model_type_;
  std::string where_;
  bool from_gguf_ = false;
};

}  // namespace rafter::model
