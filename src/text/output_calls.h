// The events of one answer, and the calls among them. For implementation files of text/output_*.cpp only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/output_json.h"
#include "text/output_parser.h"

namespace rafter::text::output {

enum class IdStyle {
  call_and_hex,       // call_1a2b3c4d
  nine_alphanumeric,  // a1b2c3d4e: what Mistral's templates insist on
};

// Events, adjacent deltas joined.
class EventList {
 public:
  void text(OutputEvent::Kind kind, std::string_view text, size_t index = 0);
  void add(OutputEvent event) { events_.push_back(std::move(event)); }
  std::vector<OutputEvent> take() { return std::exchange(events_, {}); }

 private:
  std::vector<OutputEvent> events_;
};

// A call that was begun.
struct OpenCall {
  OutputEvent start;
  bool has_arguments = false;
  bool is_sent = false;   // the start event went out
  std::string kept = {};  // arguments that wait for the end
};

// Writes calls as a family reads them: begin, arguments (through write), end. Its arguments reach the events
// when they come or when the call ends, as the delivery says.
class CallWriter : public TextSink {
 public:
  CallWriter(const OutputParserOptions& options, IdStyle ids, Source& source, EventList& events)
      : options_(options), ids_(ids), source_(source), events_(events) {}

  // Malformed: no offered function has that name. `id`: the model's own; empty: one is made.
  void begin(std::string name, std::string id = {});
  // A piece of the arguments' JSON.
  void write(std::string_view json) override;
  // Without any arguments written they are {}.
  void end();
  // The call that was begun, if any, is none.
  void give_up();

  bool is_open() const { return open_.has_value(); }
  bool has_arguments() const { return open_ && open_->has_arguments; }
  size_t ended() const { return ended_; }
  // What the open call's function declares; null without a declaration.
  const ArgumentSchema* schema() const { return open_ ? options_.tools.find(open_->start.name) : nullptr; }

 private:
  std::string make_id() const;
  void send_start();

  const OutputParserOptions& options_;
  IdStyle ids_;
  Source& source_;
  EventList& events_;
  std::optional<OpenCall> open_;
  size_t next_index_ = 0, ended_ = 0;
};

// An object's members, written one after another into a call's arguments.
class MemberWriter {
 public:
  explicit MemberWriter(TextSink& out) : out_(out) { out_.write("{"); }
  // Begins a member; its value is to be written next.
  void key(std::string_view name) {
    out_.write((is_first_ ? "" : ",") + json_quoted(name) + ":");
    is_first_ = false;
  }
  void close() { out_.write("}"); }

 private:
  TextSink& out_;
  bool is_first_ = true;
};

// The value of an argument that is written as plain text, handed over in pieces: a text that is certainly a
// string goes out as it comes, others when their end decides the type.
class TextValue {
 public:
  TextValue(TextSink& out, const ArgumentSchema& schema) : out_(out), types_(schema.types) {
    if (is_certainly_string(types_)) out_.write("\"");
  }
  void write(std::string_view text);
  void close() { out_.write(is_certainly_string(types_) ? "\"" : argument_json(text_, types_)); }

 private:
  TextSink& out_;
  JsonTypes types_;
  std::string text_;
};

}  // namespace rafter::text::output
