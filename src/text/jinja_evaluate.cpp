// Expressions.
#include "text/jinja_filters.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_interpreter_guards.h"
#include "text/jinja_methods.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_tests.h"

namespace rafter::text::jinja {

Value Interpreter::evaluate(const Expression& expression, const FramePtr& frame) {
  Depth depth(*this);
  runtime_.meter.step();
  switch (expression.kind) {
    case ExpressionKind::constant:
      return static_cast<const Constant&>(expression).value;
    case ExpressionKind::name:
      return name(static_cast<const Name&>(expression), frame);
    case ExpressionKind::attribute:
      return attribute(static_cast<const Attribute&>(expression), frame);
    case ExpressionKind::item:
      return item(static_cast<const Item&>(expression), frame);
    case ExpressionKind::slice:
      return slice(static_cast<const Slice&>(expression), frame);
    case ExpressionKind::call:
      return call(static_cast<const Call&>(expression), frame);
    case ExpressionKind::filter:
      return filter(static_cast<const Filter&>(expression), frame);
    case ExpressionKind::test:
      return test(static_cast<const Test&>(expression), frame);
    case ExpressionKind::unary:
      return unary(static_cast<const Unary&>(expression), frame);
    case ExpressionKind::binary:
      return binary(static_cast<const Binary&>(expression), frame);
    case ExpressionKind::logic:
      return logic(static_cast<const Logic&>(expression), frame);
    case ExpressionKind::compare:
      return compare(static_cast<const Compare&>(expression), frame);
    case ExpressionKind::concat:
      return concat(static_cast<const Concat&>(expression), frame);
    case ExpressionKind::conditional:
      return conditional(static_cast<const Conditional&>(expression), frame);
    case ExpressionKind::list:
    case ExpressionKind::tuple:
      return display(static_cast<const Display&>(expression), frame);
    case ExpressionKind::dict:
      return dict_display(static_cast<const DictDisplay&>(expression), frame);
  }
  return {};
}

Value Interpreter::evaluate_optional(const ExpressionPtr& expression, const FramePtr& frame) {
  return expression == nullptr ? Value() : evaluate(*expression, frame);
}

Value Interpreter::name(const Name& node, const FramePtr& frame) {
  const auto& value = slot(node.slot, frame);
  return value ? *value : runtime_.undefined(fmt::format("'{}' is undefined", node.name));
}

Value Interpreter::attribute(const Attribute& node, const FramePtr& frame) {
  const Value object = evaluate(*node.object, frame);
  line_ = node.line;
  return get_attribute(object, node.name, runtime_);
}

Value Interpreter::item(const Item& node, const FramePtr& frame) {
  const Value object = evaluate(*node.object, frame);
  const Value key = evaluate(*node.key, frame);
  line_ = node.line;
  return get_subscript(object, key, runtime_);
}

Value Interpreter::slice(const Slice& node, const FramePtr& frame) {
  const Value object = evaluate(*node.object, frame);
  const Value start = evaluate_optional(node.start, frame);
  const Value stop = evaluate_optional(node.stop, frame);
  const Value step = evaluate_optional(node.step, frame);
  line_ = node.line;
  return get_slice(object, start, stop, step, runtime_);
}

Arguments Interpreter::arguments(const ArgumentList& list, const FramePtr& frame) {
  Arguments made;
  made.positional.reserve(list.positional.size());
  for (const ExpressionPtr& value : list.positional) made.positional.push_back(evaluate(*value, frame));
  if (list.more_positional != nullptr) {
    for (Value& value : to_vector(evaluate(*list.more_positional, frame), runtime_)) {
      made.positional.push_back(std::move(value));
    }
  }
  for (const auto& [name, value] : list.named) made.named.emplace_back(name, evaluate(*value, frame));
  if (list.more_named == nullptr) return made;
  const Value more = evaluate(*list.more_named, frame);
  if (!more.is(Kind::dict))
    fail(FailureKind::type, "argument after ** must be a mapping, not {}", more.type_name());
  for (const Dict::Entry& entry : more.as_dict().entries()) {
    runtime_.meter.step(1 + made.named.size() / 8);
    if (!entry.key.is_string()) fail(FailureKind::type, "keywords must be strings");
    for (const auto& [name, value] : made.named) {
      if (name == entry.key.text())
        fail(FailureKind::type, "got multiple values for keyword argument '{}'", name);
    }
    made.named.emplace_back(entry.key.text(), entry.value);
  }
  return made;
}

Value Interpreter::call(const Call& node, const FramePtr& frame, const Value* caller) {
  const Value callee = evaluate(*node.callee, frame);
  Arguments given = arguments(node.arguments, frame);
  if (caller != nullptr) {
    for (const auto& [name, value] : given.named) {
      if (name == "caller") fail(FailureKind::type, "got multiple values for keyword argument 'caller'");
    }
    given.named.emplace_back("caller", *caller);
  }
  line_ = node.line;
  if (callee.is_undefined()) fail(FailureKind::undefined, "{}", callee.why_undefined());
  if (!callee.is(Kind::object)) fail(FailureKind::type, "'{}' object is not callable", callee.type_name());
  Depth depth(*this);
  return callee.as_object().call(runtime_, std::move(given));
}

Value Interpreter::filter(const Filter& node, const FramePtr& frame, const Value* block_text) {
  Value input;
  if (node.input != nullptr) {
    // In a filter block the innermost filter of the chain takes the block's text.
    input = block_text != nullptr ? filter(static_cast<const Filter&>(*node.input), frame, block_text)
                                  : evaluate(*node.input, frame);
  } else {
    input = *block_text;
  }
  const Arguments given = arguments(node.arguments, frame);
  line_ = node.line;
  if (node.entry == nullptr) fail(FailureKind::type, "no filter named '{}'", node.name);
  return node.entry->apply(runtime_, input, given);
}

Value Interpreter::test(const Test& node, const FramePtr& frame) {
  const Value input = evaluate(*node.input, frame);
  const Arguments given = arguments(node.arguments, frame);
  line_ = node.line;
  if (node.entry == nullptr) fail(FailureKind::type, "no test named '{}'", node.name);
  return Value::boolean(node.entry->apply(runtime_, input, given));
}

Value Interpreter::unary(const Unary& node, const FramePtr& frame) {
  const Value operand = evaluate(*node.operand, frame);
  line_ = node.line;
  switch (node.operation) {
    case UnaryOperator::negative:
      return negate(operand);
    case UnaryOperator::positive:
      return plus(operand);
    case UnaryOperator::logical_not:
      return Value::boolean(!truthy(operand));
  }
  return {};
}

Value Interpreter::binary(const Binary& node, const FramePtr& frame) {
  const Value left = evaluate(*node.left, frame);
  const Value right = evaluate(*node.right, frame);
  line_ = node.line;
  switch (node.operation) {
    case BinaryOperator::add:
      return add(left, right, runtime_);
    case BinaryOperator::subtract:
      return subtract(left, right, runtime_);
    case BinaryOperator::multiply:
      return multiply(left, right, runtime_);
    case BinaryOperator::divide:
      return divide(left, right);
    case BinaryOperator::floor_divide:
      return floor_divide(left, right);
    case BinaryOperator::modulo:
      return modulo(left, right, runtime_);
    case BinaryOperator::power:
      return power(left, right);
  }
  return {};
}

Value Interpreter::logic(const Logic& node, const FramePtr& frame) {
  Value left = evaluate(*node.left, frame);
  return truthy(left) == node.is_or ? left : evaluate(*node.right, frame);
}

namespace {

bool compare_values(CompareOperator operation, const Value& left, const Value& right, Runtime& runtime) {
  Meter& meter = runtime.meter;
  switch (operation) {
    case CompareOperator::equal:
      return equals(left, right, meter);
    case CompareOperator::not_equal:
      return !equals(left, right, meter);
    case CompareOperator::less:
      return less(left, right, meter);
    case CompareOperator::less_equal:
      return less_or_equal(left, right, meter);
    case CompareOperator::greater:
      return less(right, left, meter);
    case CompareOperator::greater_equal:
      return less_or_equal(right, left, meter);
    case CompareOperator::in:
      return contains(right, left, runtime);
    case CompareOperator::not_in:
      return !contains(right, left, runtime);
  }
  return false;
}

}  // namespace

Value Interpreter::compare(const Compare& node, const FramePtr& frame) {
  Value left = evaluate(*node.first, frame);
  for (const auto& [operation, operand] : node.rest) {
    Value right = evaluate(*operand, frame);
    line_ = node.line;
    if (!compare_values(operation, left, right, runtime_)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::concat(const Concat& node, const FramePtr& frame) {
  std::vector<Value> parts;
  for (const ExpressionPtr& part : node.parts) parts.push_back(evaluate(*part, frame));
  Builder joined(runtime_.meter);
  for (const Value& part : parts) append_str(joined, part, runtime_);
  return runtime_.string(joined.take());
}

Value Interpreter::conditional(const Conditional& node, const FramePtr& frame) {
  if (truthy(evaluate(*node.condition, frame))) return evaluate(*node.then, frame);
  if (node.otherwise != nullptr) return evaluate(*node.otherwise, frame);
  return runtime_.undefined(fmt::format(
      "the inline if-expression on line {} evaluated to false and no else section was defined", node.line));
}

Value Interpreter::display(const Display& node, const FramePtr& frame) {
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const ExpressionPtr& item : node.items) items.push_back(evaluate(*item, frame));
  return node.kind == ExpressionKind::list ? runtime_.list(std::move(items))
                                           : runtime_.tuple(std::move(items));
}

Value Interpreter::dict_display(const DictDisplay& node, const FramePtr& frame) {
  auto dict = runtime_.new_dict();
  for (const auto& [key, value] : node.items) {
    const Value key_value = evaluate(*key, frame);
    line_ = node.line;
    dict->set(key_value, evaluate(*value, frame), runtime_.meter);
  }
  return runtime_.dict(std::move(dict));
}

}  // namespace rafter::text::jinja
