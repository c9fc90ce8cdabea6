// Runtime: what every part of the engine needs during one render: the meter, the makers of counted values,
// the clock and the objects that may form cycles.
#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/jinja_meter.h"
#include "text/jinja_object.h"
#include "text/jinja_value.h"

namespace rafter::text::jinja {

struct Now {
  std::tm time{};
  int microseconds = 0;
};
using Clock = std::function<Now()>;

Now local_now();

// A text under construction whose size is counted.
class Builder {
 public:
  explicit Builder(Meter& meter) : meter_(meter), charge_(meter, 0) {}
  const Text& text() const { return text_; }
  void append(std::string_view bytes) { text_.append(bytes), grown(bytes.size()); }
  void append(const Text& other) { text_.append(other), grown(other.size()); }
  void append(const Text& other, size_t begin, size_t end) {
    text_.append(other, begin, end), grown(end - begin);
  }
  void append_as(std::string_view bytes, const Text& source, size_t at) {
    text_.append_as(bytes, source, at), grown(bytes.size());
  }
  Text take() { return std::move(text_); }

 private:
  void grown(size_t bytes) {
    meter_.copy(bytes);
    charge_.grow_to(text_.size() + text_.input().size() * sizeof(ByteRange));
  }

  Meter& meter_;
  Text text_;
  Charge charge_;
};

class Runtime {
 public:
  Runtime(const Limits& limits, Clock now, bool may_mutate)
      : meter(limits), clock(std::move(now)), allow_mutation(may_mutate) {}
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Value string(Text text, bool markup = false);
  Value string(std::string_view text) { return string(Text(std::string(text))); }
  Value list(std::vector<Value> items);
  Value tuple(std::vector<Value> items);
  std::shared_ptr<Dict> new_dict() { return std::make_shared<Dict>(meter); }
  Value dict(std::shared_ptr<Dict> dict);
  Value generator(std::unique_ptr<Iterator> items, std::string function);
  Value function(std::string name, Function::Body body, Value self = {});
  template <typename T, typename... Args>
  Value object(Args&&... args) {
    meter.step();
    auto made = std::make_shared<T>(std::forward<Args>(args)...);
    made->charge.start(meter, sizeof(T) + kAllocationBytes);
    check_nesting(made->nesting);
    return Value::from(std::shared_ptr<Object>(std::move(made)));
  }
  Value new_namespace(std::shared_ptr<Dict> attributes);
  Value undefined(std::string why);

  void check_nesting(int nesting) const {
    if (nesting > kMaxNesting) fail(FailureKind::limit, "values are nested more than {} deep", kMaxNesting);
  }
  // Keeps `release` to be run when the render ends: it breaks a possible cycle of references.
  void at_end(std::function<void()> release) { releases_.push_back(std::move(release)); }

  Meter meter;
  const Clock clock;
  std::vector<const void*> printing;  // the containers that repr() is inside of
  const bool allow_mutation;          // list.append and the like, which the reference's sandbox forbids

 private:
  std::vector<std::function<void()>> releases_;
  std::unordered_map<std::string, Value> undefined_;  // by reason: a template has few
};

}  // namespace rafter::text::jinja
