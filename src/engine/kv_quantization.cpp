#include "engine/kv_quantization.h"

#include <algorithm>

#include "format/strict_json.h"

namespace rafter::engine {
namespace {

using base::Error;
using base::ErrorCode;
using kernels::KvCodes;

constexpr const char* kFile = "kv_config.json";
constexpr size_t kDeepestJson = 8;
constexpr int32_t kUsualGroup = 64;

Error invalid(std::string what) {
  return Error{ErrorCode::invalid_data, std::move(what), kFile,
               "mend the file, or run with --kv-quant off, 4 or 8"};
}

// The file's entries by layer of the model.
class ConfigVisitor : public format::JsonVisitor {
 public:
  explicit ConfigVisitor(int64_t layers) : entries(static_cast<size_t>(layers)) {}

  base::Status value(std::span<const std::string> path, const format::JsonEvent& event) override {
    if (path.empty()) {
      return event.kind == format::JsonKind::array ? base::Status()
                                                   : base::Status(invalid("is not a list of layers"));
    }
    if (path.size() == 1) {
      entry_ = {};
      return event.kind == format::JsonKind::object ? base::Status()
                                                    : base::Status(invalid("an entry is no object"));
    }
    if (path.size() > 2) return {};
    if (path[1] == "layer_idx") return take(entry_.layer, path[1], event);
    if (path[1] == "bits") return take(entry_.bits, path[1], event);
    if (path[1] == "group_size") return take(entry_.group_size, path[1], event);
    return {};
  }

  base::Status end(std::span<const std::string> path) override {
    if (path.size() != 1) return {};
    if (!entry_.layer || !entry_.bits) return invalid("an entry has no layer_idx or no bits");
    if (*entry_.layer >= entries.size()) {
      return invalid(fmt::format("layer_idx {} and the model has {} layers", *entry_.layer, entries.size()));
    }
    std::optional<KvCodes>& place = entries[*entry_.layer];
    if (place) return invalid(fmt::format("layer_idx {} is listed twice", *entry_.layer));
    const uint64_t bits = *entry_.bits, group = entry_.group_size.value_or(kUsualGroup);
    if ((bits != 4 && bits != 8) || (group != 32 && group != 64 && group != 128)) {
      return Error{ErrorCode::unsupported,
                   fmt::format("layer_idx {}: {} bits in groups of {}", *entry_.layer, bits, group), kFile,
                   "4 and 8 bits in groups of 32, 64 or 128 are supported; a layer left out keeps 16 bits"};
    }
    place = KvCodes{static_cast<int32_t>(bits), static_cast<int32_t>(group)};
    return {};
  }

  std::vector<std::optional<KvCodes>> entries;

 private:
  struct Entry {
    std::optional<uint64_t> layer, bits, group_size;
  };

  static base::Status take(std::optional<uint64_t>& field, const std::string& name,
                           const format::JsonEvent& event) {
    if (event.kind != format::JsonKind::integer)
      return invalid(fmt::format("\"{}\" is not a positive integer", name));
    field = event.integer;
    return {};
  }

  Entry entry_;
};

// The layer of the model that appends to each of its caches.
std::vector<size_t> layers_of_caches(const model::Model& model) {
  plan::Emitter emitter(plan::EmitOptions{});
  model.emit(emitter);
  const plan::Plan plan = std::move(emitter).take();
  std::vector<size_t> layers(model.cache_layers().size());
  for (const plan::Op& op : plan.ops) {
    if (std::holds_alternative<kernels::KvAppendArgs>(op.args))
      layers[static_cast<size_t>(op.cache_layer)] = static_cast<size_t>(op.layer);
  }
  return layers;
}

// The widest usual group that divides the head.
KvCodes uniform_codes(int32_t bits, int32_t head_dim) {
  for (int32_t group : {kUsualGroup, kUsualGroup / 2}) {
    if (head_dim % group == 0) return {bits, group};
  }
  return {bits, head_dim};
}

base::Result<std::vector<KvCodes>> codes_of_file(const std::string& text, const model::Model& model) {
  ConfigVisitor visitor(model.info().layers);
  RAFTER_TRY(format::parse_strict_json(text, kDeepestJson, kFile, visitor));
  const std::vector<model::CacheLayer> caches = model.cache_layers();
  const std::vector<size_t> layers = layers_of_caches(model);
  std::vector<KvCodes> codes(caches.size());
  for (size_t i = 0; i < caches.size(); ++i) {
    const std::optional<KvCodes>& entry = visitor.entries[layers[i]];
    if (!entry) continue;
    if (caches[i].head_dim % entry->group_size != 0) {
      return Error{ErrorCode::unsupported,
                   fmt::format("layer_idx {}: groups of {} do not divide heads of {}", layers[i],
                               entry->group_size, caches[i].head_dim),
                   kFile, "use a smaller group_size, or run with --kv-quant off, 4 or 8"};
    }
    codes[i] = *entry;
  }
  return codes;
}

}  // namespace

std::optional<KvQuantization> parse_kv_quantization(std::string_view text) {
  if (text == "config") return KvQuantization::config;
  if (text == "off") return KvQuantization::off;
  if (text == "4") return KvQuantization::four_bits;
  if (text == "8") return KvQuantization::eight_bits;
  return std::nullopt;
}

base::Result<std::vector<KvCodes>> kv_codes(const format::Checkpoint& checkpoint, const model::Model& model,
                                            KvQuantization quantization, bool precise) {
  std::vector<KvCodes> codes(model.cache_layers().size());
  if (quantization == KvQuantization::off || (quantization == KvQuantization::automatic && precise))
    return codes;
  if (quantization == KvQuantization::automatic || quantization == KvQuantization::config) {
    RAFTER_ASSIGN(const std::optional<std::string> text, checkpoint.sidecar(kFile));
    if (text) return codes_of_file(*text, model);
    if (quantization == KvQuantization::automatic) return codes;
    return Error{ErrorCode::not_found, "the checkpoint has none", kFile, "use --kv-quant off, 4 or 8"};
  }
  const int32_t bits = quantization == KvQuantization::four_bits ? 4 : 8;
  const std::vector<model::CacheLayer> caches = model.cache_layers();
  for (size_t i = 0; i < caches.size(); ++i) codes[i] = uniform_codes(bits, caches[i].head_dim);
  return codes;
}

std::string describe_kv_codes(const std::vector<KvCodes>& codes, bool precise) {
  const auto has = [&](int32_t bits) {
    return std::any_of(codes.begin(), codes.end(), [&](const KvCodes& c) { return c.bits == bits; });
  };
  std::string text = has(4) && has(8) ? "4 and 8 bit" : has(4) ? "4 bit" : has(8) ? "8 bit" : "";
  if (!has(0)) return text;
  return (text.empty() ? "" : text + ", ") + (precise ? "f32" : "bf16");
}

}  // namespace rafter::engine
