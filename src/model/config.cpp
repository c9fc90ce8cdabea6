#include "model/config.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/gguf_config.h"

namespace rafter::model {

using base::Error;
using base::ErrorCode;

struct Config::Json {
  nlohmann::json object;
};

namespace {

// A value as an error message quotes it: never long.
std::string shown(const nlohmann::json& value) {
  std::string text = value.dump();
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

Error key_error(const std::string& where, std::string_view key, std::string what) {
  return Error{ErrorCode::invalid_data, std::move(what), fmt::format("{}: {}", where, key), ""};
}

}  // namespace

base::Result<Config> Config::parse(std::string_view text, const std::string& where) {
  nlohmann::json object = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return Error{ErrorCode::invalid_data, "not a JSON object", where,
                 "the file is damaged; download it again"};
  }
  Config config;
  config.where_ = where;
  if (auto type = object.find("model_type"); type != object.end() && type->is_string()) {
    config.model_type_ = type->get<std::string>();
  }
  if (auto language = object.find("text_config"); language != object.end() && language->is_object()) {
    nlohmann::json inner = std::move(*language);
    object = std::move(inner);
  }
  config.json_ = std::make_shared<const Json>(Json{std::move(object)});
  return config;
}

base::Result<Config> Config::from_checkpoint(const format::Checkpoint& checkpoint) {
  if (checkpoint.container() == format::Container::gguf) {
    RAFTER_ASSIGN(std::string text, gguf_config_json(checkpoint));
    RAFTER_ASSIGN(Config config, parse(text, checkpoint.path()));
    config.from_gguf_ = true;
    return config;
  }
  RAFTER_ASSIGN(Config config, parse(checkpoint.config_json(), checkpoint.path() + "/config.json"));
  if (config.model_type_.empty()) return key_error(config.where_, "model_type", "the key is missing");
  return config;
}

bool Config::has(std::string_view key) const {
  auto found = json_->object.find(key);
  return found != json_->object.end() && !found->is_null();
}

base::Result<int64_t> Config::integer(std::string_view key, std::optional<int64_t> fallback) const {
  if (!has(key)) {
    if (fallback) return *fallback;
    return key_error(where_, key, "the key is missing");
  }
  const nlohmann::json& value = json_->object.at(std::string(key));
  double number = -1;
  if (value.is_number()) number = value.get<double>();
  if (!value.is_number() || number < 0 || number > 2147483647.0 || number != std::floor(number)) {
    return key_error(where_, key,
                     fmt::format("expected an integer from 0 to 2147483647, found {}", shown(value)));
  }
  return static_cast<int64_t>(number);
}

base::Result<double> Config::number(std::string_view key, std::optional<double> fallback) const {
  if (!has(key)) {
    if (fallback) return *fallback;
    return key_error(where_, key, "the key is missing");
  }
  const nlohmann::json& value = json_->object.at(std::string(key));
  if (!value.is_number() || !std::isfinite(value.get<double>())) {
    return key_error(where_, key, fmt::format("expected a number, found {}", shown(value)));
  }
  return value.get<double>();
}

base::Result<bool> Config::boolean(std::string_view key, std::optional<bool> fallback) const {
  if (!has(key)) {
    if (fallback) return *fallback;
    return key_error(where_, key, "the key is missing");
  }
  const nlohmann::json& value = json_->object.at(std::string(key));
  if (!value.is_boolean())
    return key_error(where_, key, fmt::format("expected a boolean, found {}", shown(value)));
  return value.get<bool>();
}

base::Result<std::string> Config::string(std::string_view key, std::optional<std::string> fallback) const {
  if (!has(key)) {
    if (fallback) return *fallback;
    return key_error(where_, key, "the key is missing");
  }
  const nlohmann::json& value = json_->object.at(std::string(key));
  if (!value.is_string())
    return key_error(where_, key, fmt::format("expected a string, found {}", shown(value)));
  return value.get<std::string>();
}

base::Result<std::vector<std::string>> Config::strings(std::string_view key) const {
  std::vector<std::string> result;
  if (!has(key)) return result;
  const nlohmann::json& value = json_->object.at(std::string(key));
  if (!value.is_array()) return key_error(where_, key, "expected an array of strings");
  for (const nlohmann::json& element : value) {
    if (!element.is_string()) return key_error(where_, key, "expected an array of strings");
    result.push_back(element.get<std::string>());
  }
  return result;
}

base::Result<std::vector<double>> Config::numbers(std::string_view key) const {
  std::vector<double> result;
  if (!has(key)) return result;
  const nlohmann::json& value = json_->object.at(std::string(key));
  if (!value.is_array()) return key_error(where_, key, "expected an array of numbers");
  for (const nlohmann::json& element : value) {
    if (!element.is_number() || !std::isfinite(element.get<double>()))
      return key_error(where_, key, "expected an array of numbers");
    result.push_back(element.get<double>());
  }
  return result;
}

base::Result<std::vector<int64_t>> Config::integers_per_layer(std::string_view key, int64_t layers) const {
  if (!has(key) || !json_->object.at(std::string(key)).is_array()) {
    RAFTER_ASSIGN(const int64_t value, integer(key));
    return std::vector<int64_t>(static_cast<size_t>(layers), value);
  }
  RAFTER_ASSIGN(const std::vector<double> values, numbers(key));
  std::vector<int64_t> result;
  for (double value : values) {
    if (value < 0 || value > 2147483647.0 || value != std::floor(value)) break;
    result.push_back(static_cast<int64_t>(value));
  }
  if (static_cast<int64_t>(result.size()) == layers) return result;
  return key_error(where_, key,
                   fmt::format("expected {} integers from 0 to 2147483647, one per layer", layers));
}

base::Result<Config> Config::object(std::string_view key) const {
  Config inner;
  inner.where_ = fmt::format("{}: {}", where_, key);
  inner.from_gguf_ = from_gguf_;
  nlohmann::json value = nlohmann::json::object();
  if (has(key)) {
    value = json_->object.at(std::string(key));
    if (!value.is_object()) return key_error(where_, key, "expected an object");
  }
  inner.json_ = std::make_shared<const Json>(Json{std::move(value)});
  return inner;
}

}  // namespace rafter::model
