#include "text/output_parser.h"

#include <algorithm>

#include "base/check.h"
#include "text/output_calls.h"
#include "text/output_family.h"
#include "text/stream_decoder.h"

namespace rafter::text {

using output::CallContext;
using output::CallWriter;
using output::EventList;
using output::Malformed;
using output::Opener;
using output::Reading;
using output::ReasoningTags;
using output::Source;
using Kind = OutputEvent::Kind;

namespace {

constexpr size_t kMostHeldSpace = 256;

// Finds markers in text that comes byte by byte.
class MarkerMatcher {
 public:
  explicit MarkerMatcher(std::vector<std::string> markers) : markers_(std::move(markers)) {
    for (const std::string& marker : markers_) begins_[static_cast<unsigned char>(marker.front())] = true;
  }

  const bool (&begins() const)[256] { return begins_; }

  // The number of the marker that `held` is; kNone, or kPartial if it begins one.
  static constexpr int kNone = -1, kPartial = -2;
  int look_up(std::string_view held) const {
    for (size_t i = 0; i < markers_.size(); ++i) {
      if (!markers_[i].starts_with(held)) continue;
      return markers_[i].size() == held.size() ? static_cast<int>(i) : kPartial;
    }
    return kNone;
  }

  // The bytes at the end of `text`, not all of it, that may begin a marker.
  size_t open_suffix(std::string_view text) const {
    size_t longest = 0;
    for (const std::string& marker : markers_) longest = std::max(longest, marker.size() - 1);
    for (size_t size = std::min(longest, text.size() - 1); size > 0; --size) {
      if (look_up(text.substr(text.size() - size)) == kPartial) return size;
    }
    return 0;
  }

 private:
  std::vector<std::string> markers_;
  bool begins_[256] = {};
};

// Reasoning text without its heading.
class ReasoningText {
 public:
  ReasoningText(EventList& events, const ReasoningTags* tags) : events_(events), tags_(tags) {}

  void open() { is_at_heading_ = true; }
  void write(std::string_view text) {
    for (; is_at_heading_ && !text.empty(); text.remove_prefix(1)) {
      if (text.front() != tags_->heading[heading_.size()]) return stop_heading(), write(text);
      heading_ += text.front();
      if (heading_ == tags_->heading) is_at_heading_ = false, heading_.clear();
    }
    events_.text(Kind::reasoning, text);
  }
  void close() {
    if (heading_ + '\n' == tags_->heading) heading_.clear();
    stop_heading();
  }

 private:
  void stop_heading() {
    is_at_heading_ = false;
    events_.text(Kind::reasoning, std::exchange(heading_, {}));
  }

  EventList& events_;
  const ReasoningTags* tags_;
  bool is_at_heading_ = false;
  std::string heading_;  // the part of it that came so far
};

// Content text. White space where content would begin, or behind a call, waits for what follows it.
class ContentText {
 public:
  explicit ContentText(EventList& events) : events_(events) {}

  bool is_blank() const { return is_blank_; }
  void write(std::string_view text) {
    for (; is_blank_ && !text.empty(); text.remove_prefix(1)) {
      if (dropped_newlines_ > 0 && text.front() == '\n') {
        --dropped_newlines_;
      } else if (output::is_space(text.front()) && space_.size() < kMostHeldSpace) {
        dropped_newlines_ = 0;
        space_ += text.front();
      } else {
        is_blank_ = false;
        events_.text(Kind::content, std::exchange(space_, {}));
        break;
      }
    }
    events_.text(Kind::content, text);
  }
  // Reasoning or a call stood here.
  void begin_again(size_t dropped_newlines) {
    space_.clear();
    is_blank_ = true;
    dropped_newlines_ = dropped_newlines;
  }
  void drop_space() { space_.clear(); }
  void finish() { events_.text(Kind::content, std::exchange(space_, {})); }

 private:
  EventList& events_;
  bool is_blank_ = true;
  size_t dropped_newlines_ = 0;  // of those that may still come
  std::string space_;
};

}  // namespace

class OutputParser::State {
 public:
  State(const OutputFormat& format, OutputParserOptions options)
      : format_(format),
        options_(std::move(options)),
        content_(events_),
        reasoning_(events_, format.reasoning),
        calls_(options_, format.family->ids, source_, events_),
        content_markers_(markers_of_content()),
        reasoning_markers_(markers_of_reasoning()),
        is_reasoning_(format.reasoning != nullptr && options_.start != OutputStart::content),
        reading_(read_answer()) {
    if (is_reasoning_ && options_.start == OutputStart::reasoning_opened) reasoning_.open();
    source_.start(reading_);
  }

  std::vector<OutputEvent> push(std::string_view text) {
    source_.push(utf8_.push(text));
    return events_.take();
  }

  std::vector<OutputEvent> finish() {
    source_.push(utf8_.flush());
    source_.finish();
    return events_.take();
  }

  bool called() const { return calls_.ended() > 0; }
  bool is_reasoning() const { return is_reasoning_; }

 private:
  std::vector<std::string> markers_of_content() const {
    std::vector<std::string> markers;
    if (options_.parse_calls) {
      for (const Opener& opener : format_.family->openers) markers.emplace_back(opener.text);
    }
    if (format_.reasoning != nullptr) markers.emplace_back(format_.reasoning->open);
    return markers;
  }
  std::vector<std::string> markers_of_reasoning() const {
    if (format_.reasoning == nullptr) return {};
    const std::string close(format_.reasoning->close);
    return {"\n" + close, close};
  }

  Reading read_answer() {
    for (bool ended = false; !ended;) {
      if (is_reasoning_) {
        co_await read_reasoning(ended);
      } else {
        co_await read_content(ended);
      }
    }
  }

  // Takes text up to a marker; `text` is where it goes. `marker`: which one, kNone at the end of the stream,
  // or kBare in front of a brace that may be a bare call.
  static constexpr int kBare = -3;
  template <typename Text>
  Reading read_to_marker(const MarkerMatcher& markers, Text& text, bool stops_at_brace, int& marker) {
    for (;;) {
      if (held_.empty() && !(stops_at_brace && content_.is_blank()))
        text.write(source_.take_until(markers.begins()));
      const int c = co_await source_.peek();
      marker = c == Source::kEnd ? MarkerMatcher::kNone : kBare;
      const bool is_bare = c == '{' && held_.empty() && stops_at_brace && content_.is_blank();
      if (c == Source::kEnd || is_bare) break;
      held_ += static_cast<char>(co_await source_.next());
      while (!held_.empty() && (marker = markers.look_up(held_)) == MarkerMatcher::kNone) {
        text.write(held_.substr(0, 1));
        held_.erase(0, 1);
      }
      if (!held_.empty() && marker >= 0) co_return;
    }
    text.write(std::exchange(held_, {}));
  }

  Reading read_reasoning(bool& ended) {
    int marker = 0;
    co_await read_to_marker(reasoning_markers_, reasoning_, false, marker);
    reasoning_.close();
    held_.clear();
    ended = marker == MarkerMatcher::kNone;
    if (ended) co_return;
    is_reasoning_ = false;
    content_.begin_again(format_.reasoning->newlines_after);
  }

  Reading read_content(bool& ended) {
    const bool may_be_bare = options_.parse_calls && format_.family->read_bare != nullptr && !called();
    int marker = 0;
    co_await read_to_marker(content_markers_, content_, may_be_bare, marker);
    ended = marker == MarkerMatcher::kNone;
    if (ended) {
      if (called()) content_.drop_space();
      content_.finish();
    } else if (marker == static_cast<int>(format_.family->openers.size()) * options_.parse_calls) {
      held_.clear();
      is_reasoning_ = true;
      content_.drop_space();
      reasoning_.open();
    } else {
      source_.record(std::exchange(held_, {}));
      co_await read_call(marker == kBare ? format_.family->read_bare
                                         : format_.family->openers[static_cast<size_t>(marker)].read);
    }
  }

  Reading read_call(Reading (*read)(CallContext&)) {
    const size_t ended_before = calls_.ended();
    CallContext context{source_, calls_};
    bool is_malformed = false;
    try {
      co_await read(context);
    } catch (const Malformed&) {
      is_malformed = true;
    }
    RAFTER_CHECK(is_malformed || !calls_.is_open());
    const std::string markup = source_.stop_recording();
    if (calls_.ended() > ended_before) content_.begin_again(0);
    if (!is_malformed) co_return;
    calls_.give_up();
    if (markup.empty()) co_return;
    // Its end may begin what comes next. What may not be looked at again is content, whatever it says: so
    // every byte is read once.
    const size_t text = markup.size() - content_markers_.open_suffix(markup);
    content_.write(std::string_view(markup).substr(0, text));
    held_ = markup.substr(text);
  }

  const OutputFormat format_;
  const OutputParserOptions options_;
  Utf8Stream utf8_;
  EventList events_;
  Source source_;
  ContentText content_;
  ReasoningText reasoning_;
  CallWriter calls_;
  const MarkerMatcher content_markers_, reasoning_markers_;
  bool is_reasoning_;
  std::string held_;  // the beginning of a marker
  Reading reading_;
};

OutputParser::OutputParser(const OutputFormat& format, OutputParserOptions options)
    : state_(std::make_unique<State>(format, std::move(options))) {}
OutputParser::~OutputParser() = default;
OutputParser::OutputParser(OutputParser&&) noexcept = default;
OutputParser& OutputParser::operator=(OutputParser&&) noexcept = default;

std::vector<OutputEvent> OutputParser::push(std::string_view text) { return state_->push(text); }
std::vector<OutputEvent> OutputParser::finish() { return state_->finish(); }
bool OutputParser::called() const { return state_->called(); }
bool OutputParser::is_reasoning() const { return state_->is_reasoning(); }

}  // namespace rafter::text
