#include "text/jinja_globals.h"

#include <clocale>
#include <ctime>

#include "text/jinja_binder.h"
#include "text/jinja_methods.h"
#include "text/jinja_number.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"

namespace rafter::text::jinja {
namespace {

// dict(mapping or pairs, **named).
std::shared_ptr<Dict> build_dict(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.size() > 1) fail(FailureKind::type, "dict expected at most 1 argument");
  auto dict = runtime.new_dict();
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Kind::dict)) {
      for (const Dict::Entry& entry : source.as_dict().entries())
        dict->set(entry.key, entry.value, runtime.meter);
    } else {
      Value pair;
      for (auto pairs = iterate(source, runtime); pairs->next(pair);) {
        const std::vector<Value> parts = to_vector(pair, runtime);
        if (parts.size() != 2) fail(FailureKind::value, "dictionary update sequence element is not a pair");
        dict->set(parts[0], parts[1], runtime.meter);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) dict->set(runtime.string(name), value, runtime.meter);
  return dict;
}

Value range(Runtime& runtime, const Value&, const Arguments& arguments) {
  Binder bound("range", arguments, {"/start", "/stop", "/step"}, 1);
  const int64_t first = bound.integer(0, 0);
  const int64_t start = bound.has(1) ? first : 0;
  const int64_t stop = bound.has(1) ? bound.integer(1, 0) : first;
  const int64_t step = bound.integer(2, 1);
  if (step == 0) fail(FailureKind::value, "range() arg 3 must not be zero");
  const Value made = runtime.object<Range>(start, stop, step);
  const int most = runtime.meter.limits().range_items;
  if (*made.as_object().length() > static_cast<size_t>(most)) {
    fail(FailureKind::limit, "range of more than {} items", most);
  }
  return made;
}

Value make_namespace(Runtime& runtime, const Value&, const Arguments& arguments) {
  auto attributes = build_dict(runtime, arguments);
  for (const Dict::Entry& entry : attributes->entries()) {
    if (entry.key.is_string() && entry.key.text().starts_with('_')) {
      fail(FailureKind::type, "a namespace cannot hold the underscore-prefixed attribute {}",
           repr_of(entry.key, runtime));
    }
  }
  return runtime.new_namespace(std::move(attributes));
}

Value raise_exception(Runtime& runtime, const Value&, const Arguments& arguments) {
  Binder bound("raise_exception", arguments, {"message"}, 1);
  throw Failure{FailureKind::raised, to_text(bound.at(0), runtime).bytes()};
}

// The clock's time as C's strftime prints it. Python's own %f is microseconds; %z and %Z are empty, as the
// time names no zone.
Value strftime_now(Runtime& runtime, const Value&, const Arguments& arguments) {
  Binder bound("strftime_now", arguments, {"format"}, 1);
  const Now now = runtime.clock();
  std::string format;
  const std::string_view given = bound.text(0);
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] != '%' || i + 1 == given.size()) {
      format += given[i];
      continue;
    }
    const char directive = given[++i];
    if (directive == 'f') {
      format += fmt::format("{:06}", now.microseconds);
    } else if (directive != 'z' && directive != 'Z') {
      format += {'%', directive};
    }
  }
  if (format.empty()) return runtime.string("");
  static const locale_t c_locale =
      newlocale(LC_ALL_MASK, "C", nullptr);  // English names, whatever the user's
  constexpr size_t kGrowth = 256;            // a longer result is taken for empty, as Python does
  for (size_t size = 1024;; size *= 2) {
    const Charge charge(runtime.meter, size);
    std::string buffer(size, '\0');
    const size_t written = strftime_l(buffer.data(), buffer.size(), format.c_str(), &now.time, c_locale);
    if (written == 0 && size < kGrowth * format.size()) continue;
    buffer.resize(written);
    return runtime.string(buffer);
  }
}

// cycler(*items): .current, .next(), .reset().
class Cycler : public Object {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {
    for (const Value& item : items_) nesting = std::max(nesting, item.nesting() + 1);
  }
  std::string type_name() const override { return "Cycler"; }
  std::optional<Value> attribute(const Value& self, std::string_view name, Runtime& runtime) override {
    if (name == "current") return items_[position_];
    if (name == "pos") return Value::integer(static_cast<int64_t>(position_));
    if (name == "items") return runtime.tuple(items_);
    if (name == "next") return runtime.function("next", next, self);
    if (name == "reset") return runtime.function("reset", reset, self);
    return std::nullopt;
  }

 private:
  static Value next(Runtime&, const Value& self, const Arguments& arguments) {
    Binder("next", arguments, {});
    auto& cycler = static_cast<Cycler&>(self.as_object());
    Value current = cycler.items_[cycler.position_];
    cycler.position_ = (cycler.position_ + 1) % cycler.items_.size();
    return current;
  }
  static Value reset(Runtime&, const Value& self, const Arguments& arguments) {
    Binder("reset", arguments, {});
    static_cast<Cycler&>(self.as_object()).position_ = 0;
    return {};
  }

  std::vector<Value> items_;
  size_t position_ = 0;
};

// joiner(sep): nothing the first time it is called, the separator from then on.
class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) { nesting = separator_.nesting() + 1; }
  std::string type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, Arguments arguments) override {
    Binder("joiner", arguments, {});
    if (used_) return separator_;
    used_ = true;
    return runtime.string("");
  }
  std::optional<Value> attribute(const Value&, std::string_view name, Runtime&) override {
    if (name == "sep") return separator_;
    if (name == "used") return Value::boolean(used_);
    return std::nullopt;
  }

 private:
  Value separator_;
  bool used_ = false;
};

Value cycler(Runtime& runtime, const Value&, const Arguments& arguments) {
  if (!arguments.named.empty()) fail(FailureKind::type, "cycler() takes no keyword arguments");
  if (arguments.positional.empty()) fail(FailureKind::value, "at least one item has to be provided");
  return runtime.object<Cycler>(arguments.positional);
}

Value joiner(Runtime& runtime, const Value&, const Arguments& arguments) {
  Binder bound("joiner", arguments, {"sep"});
  return runtime.object<Joiner>(bound.value(0, runtime.string(", ")));
}

Value lipsum(Runtime&, const Value&, const Arguments&) {
  fail(FailureKind::type, "lipsum() is not supported: a render does not depend on chance");
}

// The global `dict`: callable, and dict.fromkeys.
class DictMaker : public Object {
 public:
  std::string type_name() const override { return "TemplateDict"; }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, Arguments arguments) override {
    return runtime.dict(build_dict(runtime, arguments));
  }
  std::optional<Value> attribute(const Value& self, std::string_view name, Runtime& runtime) override {
    if (name != "fromkeys") return std::nullopt;
    return runtime.function("fromkeys", find_container_method(Kind::dict, "fromkeys"), self);
  }
};

}  // namespace

std::optional<Value> make_global(std::string_view name, Runtime& runtime) {
  struct Global {
    std::string_view name;
    MethodBody body;
  };
  static constexpr Global kGlobals[] = {
      {"range", range},
      {"namespace", make_namespace},
      {"raise_exception", raise_exception},
      {"cycler", cycler},
      {"joiner", joiner},
      {"strftime_now", strftime_now},
      {"lipsum", lipsum},
  };
  if (name == "dict") return runtime.object<DictMaker>();
  for (const Global& global : kGlobals) {
    if (global.name == name) return runtime.function(std::string(name), global.body);
  }
  return std::nullopt;
}

}  // namespace rafter::text::jinja
