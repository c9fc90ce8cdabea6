#include "format/shard_index.h"

#include "format/errors.h"
#include "format/strict_json.h"

namespace rafter::format {
namespace {

constexpr size_t kDeepestJson = 8, kMostTensors = 1'000'000;

bool is_shard_name(std::string_view name) {
  return name.size() > 12 && name.size() <= 255 && name.ends_with(".safetensors") &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos &&
         !name.starts_with("..");
}

class IndexVisitor : public JsonVisitor {
 public:
  explicit IndexVisitor(const std::string& where) : where_(where) {}

  base::Status value(std::span<const std::string> path, const JsonEvent& event) override {
    if (path.empty()) {
      return event.kind == JsonKind::object ? base::Status()
                                            : base::Status(invalid(where_, "the index is not an object"));
    }
    if (path[0] != "weight_map") return {};
    if (path.size() == 1) {
      found_ = event.kind == JsonKind::object;
      return found_ ? base::Status() : base::Status(invalid(where_, "weight_map is not an object"));
    }
    if (event.kind != JsonKind::string || !is_shard_name(event.string)) {
      return invalid(where_in(where_, path[1]),
                     "its shard is not the name of a .safetensors file beside the index: {}",
                     printable(event.string));
    }
    if (files_.size() >= kMostTensors)
      return invalid(where_, "the index lists more than {} tensors", kMostTensors);
    files_.emplace(path[1], event.string);
    return {};
  }

  bool found() const { return found_; }
  std::map<std::string, std::string> take_files() { return std::move(files_); }

 private:
  const std::string& where_;
  bool found_ = false;
  std::map<std::string, std::string> files_;
};

}  // namespace

base::Result<std::map<std::string, std::string>> parse_shard_index(std::string_view text,
                                                                   const std::string& where) {
  IndexVisitor visitor(where);
  RAFTER_TRY(parse_strict_json(text, kDeepestJson, where, visitor));
  if (!visitor.found()) return invalid(where, "the index has no weight_map");
  return visitor.take_files();
}

}  // namespace rafter::format
