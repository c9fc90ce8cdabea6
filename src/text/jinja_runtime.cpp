#include "text/jinja_runtime.h"

#include <chrono>

namespace rafter::text::jinja {

Now local_now() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  Now result;
  localtime_r(&seconds, &result.time);
  const auto since_epoch = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch());
  result.microseconds = static_cast<int>(since_epoch.count() % 1'000'000);
  return result;
}

Runtime::~Runtime() {
  for (auto& release : releases_) release();
}

Value Runtime::string(Text text, bool markup) {
  meter.copy(text.size());
  return Value::from(std::make_shared<const String>(meter, std::move(text), markup));
}

Value Runtime::list(std::vector<Value> items) {
  meter.step(1 + items.size() / 4);
  auto made = std::make_shared<Sequence>(meter, std::move(items));
  check_nesting(made->nesting);
  return Value::from_list(std::move(made));
}

Value Runtime::tuple(std::vector<Value> items) {
  meter.step(1 + items.size() / 4);
  auto made = std::make_shared<Sequence>(meter, std::move(items));
  check_nesting(made->nesting);
  return Value::from_tuple(std::move(made));
}

Value Runtime::dict(std::shared_ptr<Dict> dict) {
  meter.step(1 + dict->size() / 4);
  check_nesting(dict->nesting());
  return Value::from(std::move(dict));
}

Value Runtime::generator(std::unique_ptr<Iterator> items, std::string function) {
  return object<Generator>(std::move(items), "generator", std::move(function));
}

Value Runtime::function(std::string name, Function::Body body, Value self) {
  return object<Function>(std::move(name), std::move(body), std::move(self));
}

Value Runtime::new_namespace(std::shared_ptr<Dict> attributes) {
  check_nesting(attributes->nesting());
  auto made = std::make_shared<Namespace>(std::move(attributes));
  made->charge.start(meter, sizeof(Namespace) + 4 * kAllocationBytes);
  at_end([made] { made->clear(); });
  return Value::from(std::shared_ptr<Object>(std::move(made)));
}

Value Runtime::undefined(std::string why) {
  auto known = undefined_.find(why);
  if (known != undefined_.end()) return known->second;
  constexpr size_t kMostReasons = 1000;
  if (undefined_.size() >= kMostReasons) why = "a value is undefined";
  return undefined_.try_emplace(why, Value::undefined(why)).first->second;
}

}  // namespace rafter::text::jinja
