#include "text/jinja_filters.h"

namespace rafter::text::jinja {

const FilterEntry* find_filter(std::string_view name) {
  for (const auto& family : {text_filters(), sequence_filters(), selection_filters(), value_filters()}) {
    for (const FilterEntry& entry : family) {
      if (entry.name == name) return &entry;
    }
  }
  return nullptr;
}

}  // namespace rafter::text::jinja
