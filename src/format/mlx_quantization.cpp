#include "format/mlx_quantization.h"

#include <optional>

#include "format/errors.h"
#include "format/strict_json.h"

namespace rafter::format {
namespace {

constexpr size_t kDeepestJson = 64;

// A module's entry as written: what is absent comes from the default.
struct Entry {
  bool quantized = true;
  std::optional<uint64_t> bits, group;
  std::optional<std::string> mode;
};

// One quantization block.
struct Block {
  bool present = false;
  Entry defaults;
  std::map<std::string, Entry> modules;
  std::optional<std::string> method;
};

class ConfigVisitor : public JsonVisitor {
 public:
  explicit ConfigVisitor(const std::string& where) : where_(where) {}

  base::Status value(std::span<const std::string> path, const JsonEvent& event) override {
    if (path.empty()) {
      return event.kind == JsonKind::object ? base::Status()
                                            : base::Status(invalid(where_, "not a JSON object"));
    }
    if (path[0] == "quantization") return block_value(mlx, path.subspan(1), event);
    if (path[0] == "quantization_config") return block_value(hugging_face, path.subspan(1), event);
    if (path.size() > 1 && path[0] == "text_config" && path[1] == "quantization_config") {
      return block_value(nested, path.subspan(2), event);
    }
    return {};
  }

  Block mlx, hugging_face, nested;

 private:
  // `path` within the block.
  base::Status block_value(Block& block, std::span<const std::string> path, const JsonEvent& event) {
    if (path.empty()) {
      block.present = event.kind != JsonKind::null;
      if (block.present && event.kind != JsonKind::object)
        return invalid(where_, "a quantization block is no object");
      return {};
    }
    const std::string& name = path[0];
    if (path.size() == 1) {
      if (name == "quant_method" && event.kind == JsonKind::string) block.method = event.string;
      // Blocks of the time before quant_method.
      if ((name == "load_in_4bit" || name == "load_in_8bit") && event.boolean && !block.method)
        block.method = "bitsandbytes";
      if (name == "bits" || name == "group_size" || name == "mode")
        return field(block.defaults, name, name, event);
      if (event.kind == JsonKind::boolean) block.modules[name].quantized = event.boolean;
      if (event.kind == JsonKind::object) block.modules[name];
      return {};
    }
    const auto module = block.modules.find(name);
    if (path.size() > 2 || module == block.modules.end()) return {};
    return field(module->second, name, path[1], event);
  }

  base::Status field(Entry& entry, const std::string& module, const std::string& name,
                     const JsonEvent& event) {
    if (event.kind == JsonKind::null) return {};
    if (name == "mode" && event.kind == JsonKind::string) {
      entry.mode = event.string;
    } else if (name == "bits" && event.kind == JsonKind::integer) {
      entry.bits = event.integer;
    } else if (name == "group_size" && event.kind == JsonKind::integer) {
      entry.group = event.integer;
    } else if (name == "mode" || name == "bits" || name == "group_size") {
      return invalid(where_in(where_, module), "quantization {} is of the wrong type", name);
    }
    return {};
  }

  const std::string& where_;
};

// The widths that MLX takes for a mode when the block names none.
MlxQuantization::Module mode_defaults(const std::string& mode) {
  if (mode == "mxfp4") return {true, 4, 32, mode};
  if (mode == "nvfp4") return {true, 4, 16, mode};
  if (mode == "mxfp8") return {true, 8, 32, mode};
  return {true, 4, 64, mode};
}

MlxQuantization::Module filled(const Entry& entry, const MlxQuantization::Module& top_level) {
  const std::string mode = entry.mode.value_or(top_level.mode);
  const MlxQuantization::Module defaults = mode == top_level.mode ? top_level : mode_defaults(mode);
  return {entry.quantized, entry.bits.value_or(defaults.bits), entry.group.value_or(defaults.group),
          entry.mode.value_or(defaults.mode)};
}

}  // namespace

const MlxQuantization::Module* MlxQuantization::find(std::string_view module) const {
  const auto entry = modules.find(module);
  return entry == modules.end() ? nullptr : &entry->second;
}

base::Result<MlxQuantization> parse_mlx_quantization(std::string_view config_json, const std::string& where) {
  ConfigVisitor visitor(where);
  RAFTER_TRY(parse_strict_json(config_json, kDeepestJson, where, visitor));
  const bool mlx = visitor.mlx.present;
  const Block& block = mlx                            ? visitor.mlx
                       : visitor.hugging_face.present ? visitor.hugging_face
                                                      : visitor.nested;
  MlxQuantization quantization;
  if (!block.present) return quantization;
  if (!mlx && block.method.has_value()) {
    base::Error error = unsupported(where, "the checkpoint is quantised by \"{}\", which is not supported",
                                    printable(*block.method));
    error.hint = kConversionHint;
    return error;
  }
  quantization.present = true;
  quantization.defaults = filled(block.defaults, mode_defaults(block.defaults.mode.value_or("affine")));
  for (const auto& [name, entry] : block.modules) {
    quantization.modules.emplace(name, filled(entry, quantization.defaults));
  }
  return quantization;
}

}  // namespace rafter::format
