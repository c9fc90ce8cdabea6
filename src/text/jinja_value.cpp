#include "text/jinja_value.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/jinja_object.h"
#include "text/jinja_operators.h"
#include "text/jinja_unicode.h"

namespace rafter::text::jinja {
namespace {

int nesting_of(const std::vector<Value>& items) {
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, item.nesting());
  return deepest + 1;
}

constexpr size_t kIndexedDictSize = 8;  // smaller dicts are searched entry by entry

Meter& unlimited_meter() {
  static thread_local Meter meter(
      Limits{.steps = UINT64_MAX, .output_bytes = SIZE_MAX, .live_bytes = SIZE_MAX});
  return meter;
}

}  // namespace

Value Value::undefined(std::string why) {
  return Value(std::in_place_index<1>, Undefined{std::make_shared<const std::string>(std::move(why))});
}

Value Value::string(std::string_view text, Origin origin) {
  std::string valid = base::is_valid_utf8(text) ? std::string(text) : base::replace_malformed_utf8(text);
  return from(std::make_shared<const String>(Text(std::move(valid), origin == Origin::input), false));
}

Value Value::list(std::vector<Value> items) {
  return from_list(std::make_shared<Sequence>(std::move(items)));
}
Value Value::tuple(std::vector<Value> items) {
  return from_tuple(std::make_shared<Sequence>(std::move(items)));
}

Value Value::dict(const std::vector<std::pair<std::string, Value>>& entries) {
  auto dict = std::make_shared<Dict>();
  for (const auto& [key, value] : entries) dict->set(string(key), value, unlimited_meter());
  return from(std::move(dict));
}

std::string_view Value::text() const { return as_string().text.view(); }

const void* Value::identity() const {
  switch (kind()) {
    case Kind::string:
      return std::get<5>(data_).get();
    case Kind::list:
      return std::get<6>(data_).get();
    case Kind::tuple:
      return std::get<7>(data_).get();
    case Kind::dict:
      return std::get<8>(data_).get();
    case Kind::object:
      return std::get<9>(data_).get();
    default:
      return nullptr;
  }
}

int Value::nesting() const {
  switch (kind()) {
    case Kind::list:
    case Kind::tuple:
      return as_sequence().nesting;
    case Kind::dict:
      return as_dict().nesting();
    case Kind::object:
      return as_object().nesting;
    default:
      return 0;
  }
}

std::string Value::type_name() const {
  switch (kind()) {
    case Kind::none:
      return "NoneType";
    case Kind::undefined:
      return "Undefined";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return as_string().markup ? "Markup" : "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::object:
      return as_object().type_name();
  }
  return {};
}

String::String(Text value, bool is_markup)
    : text(std::move(value)), code_points(count_code_points(text.view())), markup(is_markup) {}

String::String(Meter& meter, Text value, bool is_markup)
    : text(std::move(value)),
      code_points(count_code_points(text.view())),
      markup(is_markup),
      charge(meter,
             sizeof(String) + kAllocationBytes + text.size() + text.input().size() * sizeof(ByteRange)) {}

Sequence::Sequence(std::vector<Value> values) : items(std::move(values)), nesting(nesting_of(items)) {}

Sequence::Sequence(Meter& meter, std::vector<Value> values)
    : items(std::move(values)),
      nesting(nesting_of(items)),
      charge(meter, sizeof(Sequence) + kAllocationBytes + items.capacity() * sizeof(Value)) {}

template <typename Equal>
size_t Dict::position(uint64_t hash, Equal equal) const {
  if (index_.empty()) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].hash == hash && equal(entries_[i].key)) return i;
    }
    return entries_.size();
  }
  const size_t mask = index_.size() - 1;
  for (size_t slot = hash & mask; index_[slot] != 0; slot = (slot + 1) & mask) {
    const Entry& entry = entries_[index_[slot] - 1];
    if (entry.hash == hash && equal(entry.key)) return index_[slot] - 1;
  }
  return entries_.size();
}

const Value* Dict::find(const Value& key, Meter& meter) const {
  const size_t at =
      position(hash_value(key, meter), [&](const Value& other) { return equals(other, key, meter); });
  return at < entries_.size() ? &entries_[at].value : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  const size_t at =
      position(hash_text(key), [&](const Value& other) { return other.is_string() && other.text() == key; });
  return at < entries_.size() ? &entries_[at].value : nullptr;
}

void Dict::set(const Value& key, Value value, Meter& meter) {
  nesting_ = std::max({nesting_, key.nesting() + 1, value.nesting() + 1});
  const uint64_t hash = hash_value(key, meter);
  const size_t at = position(hash, [&](const Value& other) { return equals(other, key, meter); });
  if (at < entries_.size()) {
    entries_[at].value = std::move(value);
    return;
  }
  entries_.push_back({key, std::move(value), hash});
  charge_.grow_to(sizeof(Dict) + kAllocationBytes +
                  entries_.capacity() * (sizeof(Entry) + 2 * sizeof(uint32_t)));
  if (entries_.size() <= kIndexedDictSize) return;
  if (entries_.size() * 2 > index_.size()) {
    rebuild_index();
  } else {
    index_entry(entries_.size() - 1);
  }
}

void Dict::index_entry(size_t position) {
  const size_t mask = index_.size() - 1;
  size_t slot = entries_[position].hash & mask;
  while (index_[slot] != 0) slot = (slot + 1) & mask;
  index_[slot] = static_cast<uint32_t>(position + 1);
}

void Dict::rebuild_index() {
  size_t size = 4 * kIndexedDictSize;
  while (size < entries_.size() * 4) size *= 2;
  index_.assign(size, 0);
  for (size_t i = 0; i < entries_.size(); ++i) index_entry(i);
}

bool Dict::remove(const Value& key, Meter& meter) {
  const size_t at =
      position(hash_value(key, meter), [&](const Value& other) { return equals(other, key, meter); });
  if (at == entries_.size()) return false;
  meter.step(entries_.size());
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(at));
  index_.clear();
  if (entries_.size() > kIndexedDictSize) rebuild_index();
  return true;
}

void Dict::clear() {
  // Values may hold this dict, so they are let go only when it no longer shows them.
  std::vector<Entry> released = std::move(entries_);
  entries_.clear();
  index_.clear();
}

}  // namespace rafter::text::jinja
