#include "cli/model_facts.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>

#include "model/model.h"
#include "text/output_parser.h"

namespace rafter::cli {
namespace {

using nlohmann::json;

json config_of(const format::Checkpoint& checkpoint) {
  json config = json::parse(checkpoint.config_json(), nullptr, /*allow_exceptions=*/false);
  return config.is_object() ? config : json::object();
}

// The group size that the config's quantization block gives a module; the default is MLX's own. Sizes that no
// matrix has count as the default: products with them stay within 64 bits.
int64_t group_of(const json& config, const std::string& module) {
  constexpr int64_t kDefault = 64, kLargest = 1 << 16;
  for (const char* key : {"quantization", "quantization_config"}) {
    if (!config.contains(key) || !config[key].is_object()) continue;
    const json& block = config[key];
    const json group = block.value("group_size", json(kDefault));
    const json own = block.value(module, json());
    const json chosen = own.is_object() ? own.value("group_size", group) : group;
    const double size = chosen.is_number_integer() ? chosen.get<double>() : 0;
    return size >= 1 && size <= kLargest ? static_cast<int64_t>(size) : kDefault;
  }
  return kDefault;
}

// Of an MLX triple: words per row · 32 / group = groups per row · bits.
std::string affine_name(const json& config, const std::string& module, const format::StoredTensor& weight,
                        const format::StoredTensor& scales) {
  const int64_t group = group_of(config, module), groups = scales.shape.back();
  const int64_t bits = groups > 0 ? weight.shape.back() * 32 / (groups * group) : 0;
  return fmt::format("q{}g{}", bits, group);
}

// Weight elements of a checkpoint whose architecture is not known: codes counted as what they stand for.
int64_t count_elements(const format::Checkpoint& checkpoint) {
  const json config = config_of(checkpoint);
  int64_t elements = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (name.ends_with(".scales") || name.ends_with(".biases")) continue;
    int64_t count = 1;
    for (int64_t size : tensor.shape) count *= size;
    const std::string module = name.substr(0, name.rfind('.'));
    if (auto scales = checkpoint.tensors().find(module + ".scales"); scales != checkpoint.tensors().end()) {
      count = group_of(config, module);
      for (int64_t size : scales->second.shape) count *= size;
    }
    elements += count;
  }
  return elements;
}

// The type the file names, whether or not this program runs it.
std::string architecture_of(const format::Checkpoint& checkpoint) {
  if (auto found = checkpoint.gguf_metadata().find("general.architecture");
      found != checkpoint.gguf_metadata().end()) {
    if (const auto* name = std::get_if<std::string>(&found->second.value)) return *name;
  }
  const json type = config_of(checkpoint).value("model_type", json());
  return type.is_string() ? type.get<std::string>() : "unknown";
}

// A text file beside the weights; "" when there is none.
std::string sidecar_of(const format::Checkpoint& checkpoint, const char* name) {
  const auto text = checkpoint.sidecar(name);
  return text.ok() && text->has_value() ? **text : "";
}

// The sources of all chat templates, wherever the checkpoint keeps them; "" without any.
std::string template_source(const format::Checkpoint& checkpoint) {
  std::string source;
  const auto& metadata = checkpoint.gguf_metadata();
  for (auto found = metadata.lower_bound("tokenizer.chat_template");
       found != metadata.end() && found->first.starts_with("tokenizer.chat_template"); ++found) {
    if (const auto* text = std::get_if<std::string>(&found->second.value)) source += *text;
  }
  source += sidecar_of(checkpoint, "chat_template.jinja");
  if (!source.empty() || checkpoint.container() == format::Container::gguf) return source;
  const json config =
      json::parse(sidecar_of(checkpoint, "tokenizer_config.json"), nullptr, /*allow_exceptions=*/false);
  const json value = config.is_object() ? config.value("chat_template", json()) : json();
  return value.is_string() ? value.get<std::string>() : value.is_array() ? value.dump() : "";
}

// Whether the checkpoint's texts become one vector: a file that lists sentence-transformers' modules, or a
// GGUF key that says how to pool.
bool is_embedding(const format::Checkpoint& checkpoint) {
  if (checkpoint.container() != format::Container::gguf) {
    return !sidecar_of(checkpoint, "modules.json").empty();
  }
  const auto pooling = checkpoint.gguf_integer(architecture_of(checkpoint) + ".pooling_type", 0);
  return pooling.ok() && *pooling > 0;
}

// What templates, a way of pooling or a tower say that the model can do.
std::string capabilities_of(const format::Checkpoint& checkpoint) {
  const std::string source = template_source(checkpoint);
  const auto mentions = [&](const char* word) { return source.find(word) != std::string::npos; };
  const auto format = text::choose_output_format(source);
  const bool marks_reasoning = format.ok() && format->reasoning != nullptr;
  const json config = config_of(checkpoint);
  std::string words;
  const auto add = [&](bool has, const char* word) {
    if (has) words += (words.empty() ? "" : " ") + std::string(word);
  };
  add(!source.empty(), "chat");
  add(mentions("tools"), "tools");
  add(marks_reasoning || mentions("enable_thinking") || mentions("reasoning_content"), "thinking");
  add(config.contains("vision_config"), "vision");
  add(config.contains("audio_config"), "audio");
  add(is_embedding(checkpoint), "embedding");
  return words;
}

// COMMIT of …/snapshots/COMMIT[/…] in a hub's cache; "" elsewhere.
std::string revision_of(const std::string& path) {
  constexpr std::string_view kFolder = "/snapshots/";
  constexpr size_t kDigits = 40;
  const size_t at = path.find(kFolder);
  if (at == std::string::npos) return "";
  const std::string commit = path.substr(at + kFolder.size(), kDigits);
  const bool hex = commit.find_first_not_of("0123456789abcdef") == std::string::npos;
  return commit.size() == kDigits && hex ? commit : "";
}

}  // namespace

std::string quantization_summary(const format::Checkpoint& checkpoint) {
  const json config = config_of(checkpoint);
  std::map<std::string, int64_t> bytes_by_format;
  int64_t total = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (tensor.shape.size() < 2 || name.ends_with(".scales") || name.ends_with(".biases")) continue;
    const std::string module = name.substr(0, name.rfind('.'));
    std::string format(tensor.type_name);  // also of types that this program does not compute with
    for (char& c : format) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (auto scales = checkpoint.tensors().find(module + ".scales");
        scales != checkpoint.tensors().end() && !scales->second.shape.empty()) {
      format = affine_name(config, module, tensor, scales->second);
    }
    bytes_by_format[format] += tensor.bytes;
    total += tensor.bytes;
  }
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [format, bytes] : bytes_by_format) {
    if (bytes * 100 >= total) order.emplace_back(-bytes, format);
  }
  std::sort(order.begin(), order.end());
  std::string summary;
  for (const auto& entry : order) summary += (summary.empty() ? "" : "+") + entry.second;
  return summary;
}

base::Result<store::ModelRecord> read_model_facts(const store::FoundModel& found) {
  RAFTER_ASSIGN(const format::Checkpoint checkpoint, format::Checkpoint::open(found.path));
  store::ModelRecord record;
  record.path = found.path;
  record.name = found.name;
  record.container = checkpoint.container() == format::Container::gguf ? "gguf" : "safetensors";
  record.architecture = architecture_of(checkpoint);
  record.quantization = quantization_summary(checkpoint);
  record.bytes = checkpoint.file_bytes();
  for (const base::MappedFile& file : checkpoint.files()) record.weight_files.push_back(file.path());
  record.revision = revision_of(found.path);
  record.capabilities = capabilities_of(checkpoint);
  if (auto model = model::load_model(checkpoint); model.ok()) {
    record.parameters = (*model)->info().parameters;
    record.context = (*model)->info().max_positions;
  } else {
    RAFTER_TRY(checkpoint.check_not_truncated());  // says nothing of the model
    record.supported = false;
    record.parameters = count_elements(checkpoint);
  }
  return record;
}

}  // namespace rafter::cli
