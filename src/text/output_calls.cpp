#include "text/output_calls.h"

#include <fmt/format.h>

#include "base/check.h"

namespace rafter::text::output {
namespace {

// SplitMix64: https://prng.di.unimi.it/splitmix64.c
uint64_t mixed(uint64_t value) {
  value += 0x9E3779B97F4A7C15;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

}  // namespace

void EventList::text(OutputEvent::Kind kind, std::string_view text, size_t index) {
  if (text.empty()) return;
  if (events_.empty() || events_.back().kind != kind || events_.back().index != index) {
    events_.push_back({.kind = kind, .index = index});
  }
  events_.back().text += text;
}

void CallWriter::begin(std::string name, std::string id) {
  RAFTER_CHECK(!open_);
  if (name.empty() || (!options_.tools.empty() && options_.tools.find(name) == nullptr)) throw Malformed{};
  open_ = OpenCall();
  open_->start = {.kind = OutputEvent::Kind::call_start,
                  .index = next_index_,
                  .id = id.empty() ? make_id() : std::move(id),
                  .name = std::move(name)};
}

void CallWriter::write(std::string_view json) {
  RAFTER_CHECK(open_);
  open_->has_arguments = true;
  if (options_.delivery == CallDelivery::whole) {
    open_->kept += json;
    return;
  }
  if (!open_->is_sent) send_start();
  events_.text(OutputEvent::Kind::call_arguments, json, open_->start.index);
}

void CallWriter::end() {
  RAFTER_CHECK(open_);
  if (!open_->has_arguments) write("{}");
  if (!open_->is_sent) send_start();
  const size_t index = open_->start.index;
  events_.text(OutputEvent::Kind::call_arguments, open_->kept, index);
  events_.add({.kind = OutputEvent::Kind::call_end, .index = index});
  open_.reset();
  ++ended_;
  source_.record({});
}

void CallWriter::give_up() {
  if (open_ && open_->is_sent) {
    events_.add({.kind = OutputEvent::Kind::call_void, .index = open_->start.index});
  }
  open_.reset();
}

void CallWriter::send_start() {
  open_->is_sent = true;
  ++next_index_;
  events_.add(open_->start);
}

std::string CallWriter::make_id() const {
  uint64_t bits = mixed(options_.id_seed + mixed(next_index_));
  if (ids_ == IdStyle::call_and_hex) return fmt::format("call_{:08x}", bits >> 32);
  std::string id;
  for (int i = 0; i < 9; ++i, bits /= 36) id += "0123456789abcdefghijklmnopqrstuvwxyz"[bits % 36];
  return id;
}

void TextValue::write(std::string_view text) {
  if (!is_certainly_string(types_)) {
    text_ += text;
    return;
  }
  std::string escaped;
  for (const char byte : text) append_json_escaped(escaped, byte);
  out_.write(escaped);
}

}  // namespace rafter::text::output
