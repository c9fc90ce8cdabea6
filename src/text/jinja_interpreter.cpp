// Statements. Expressions are in jinja_evaluate.cpp.
#include "text/jinja_interpreter.h"

#include <algorithm>

#include "text/jinja_globals.h"
#include "text/jinja_interpreter_guards.h"
#include "text/jinja_loop.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"

namespace rafter::text::jinja {
namespace {

// A macro, or the body of a call block: its text when called.
class MacroObject : public Object {
 public:
  MacroObject(Interpreter& interpreter, const MacroPlan& plan, FramePtr outer)
      : interpreter_(interpreter), plan_(plan), outer_(std::move(outer)) {}

  std::string type_name() const override { return "Macro"; }
  void print(Builder& out, Runtime& runtime) const override {
    out.append("<Macro ");
    out.append(plan_.name.empty() ? "anonymous" : repr_of(runtime.string(plan_.name), runtime));
    out.append(">");
  }
  bool callable() const override { return true; }
  Value call(Runtime&, Arguments arguments) override {
    return interpreter_.call_macro(plan_, outer_, std::move(arguments));
  }
  std::optional<Value> attribute(const Value&, std::string_view name, Runtime& runtime) override {
    if (name == "name") return plan_.name.empty() ? Value() : runtime.string(plan_.name);
    if (name == "catch_kwargs") return Value::boolean(plan_.kwargs.has_value());
    if (name == "catch_varargs") return Value::boolean(plan_.varargs.has_value());
    if (name == "caller") return Value::boolean(plan_.caller.has_value());
    if (name != "arguments") return std::nullopt;
    std::vector<Value> names;
    for (const Parameter& parameter : plan_.parameters) names.push_back(runtime.string(parameter.name));
    return runtime.tuple(std::move(names));
  }

 private:
  Interpreter& interpreter_;
  const MacroPlan& plan_;
  FramePtr outer_;
};

// The items for which a loop's condition holds.
class ConditionIterator : public Iterator {
 public:
  ConditionIterator(Interpreter& interpreter, const For& node, FramePtr outer,
                    std::unique_ptr<Iterator> items)
      : interpreter_(interpreter), node_(node), outer_(std::move(outer)), items_(std::move(items)) {
    nesting = items_->nesting + 1;
  }
  bool next(Value& item) override {
    while (items_->next(item)) {
      if (interpreter_.holds(node_, outer_, item)) return true;
    }
    return false;
  }

 private:
  Interpreter& interpreter_;
  const For& node_;
  FramePtr outer_;
  std::unique_ptr<Iterator> items_;
};

}  // namespace

Text Interpreter::run(const Tree& tree) {
  try {
    OpenFrame root(*this, tree.function, nullptr);
    enter(tree.scope, root.frame());
    execute(tree.body, root.frame());
  } catch (Failure& failure) {
    if (failure.line == 0) failure.line = line_;
    throw;
  }
  return root_.take();
}

std::optional<Value>& Interpreter::slot(SlotRef ref, const FramePtr& frame) const {
  FunctionFrame* at = frame.get();
  for (uint32_t i = 0; i < ref.hops; ++i) at = at->outer.get();
  return at->slots[ref.index];
}

std::optional<Value> Interpreter::look_up(const std::string& name) {
  if (auto known = exported_.find(name); known != exported_.end()) return known->second;
  if (const Value* given = variables_.find(name)) return *given;
  if (auto known = globals_.find(name); known != globals_.end()) return known->second;
  if (auto made = make_global(name, runtime_)) return globals_.emplace(name, *made).first->second;
  return std::nullopt;
}

void Interpreter::enter(const ScopePlan& scope, const FramePtr& frame) {
  runtime_.meter.step(scope.loads.size() / 4);
  for (const SlotLoad& load : scope.loads) {
    auto& slot_value = frame->slots[load.index];
    if (load.from == SlotLoad::From::context) {
      slot_value = look_up(load.name);
    } else if (load.from == SlotLoad::From::alias) {
      slot_value = slot(load.outer, frame);
    } else {
      slot_value.reset();
    }
  }
}

void Interpreter::leave(const ScopePlan& scope, const FramePtr& frame) {
  for (uint32_t index : scope.slots) frame->slots[index].reset();
}

Interpreter::Flow Interpreter::execute(const Body& body, const FramePtr& frame) {
  for (const StatementPtr& statement : body) {
    const Flow flow = execute(*statement, frame);
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::execute(const Statement& statement, const FramePtr& frame) {
  Depth depth(*this);
  runtime_.meter.step();
  line_ = statement.line;
  switch (statement.kind) {
    case StatementKind::output:
      for (const ExpressionPtr& part : static_cast<const Output&>(statement).parts)
        write(evaluate(*part, frame));
      return Flow::normal;
    case StatementKind::if_:
      return run_if(static_cast<const If&>(statement), frame);
    case StatementKind::for_:
      return run_for(static_cast<const For&>(statement), frame);
    case StatementKind::set:
      run_set(static_cast<const Set&>(statement), frame);
      return Flow::normal;
    case StatementKind::set_block:
      return run_set_block(static_cast<const SetBlock&>(statement), frame);
    case StatementKind::macro:
      run_macro(static_cast<const Macro&>(statement), frame);
      return Flow::normal;
    case StatementKind::call_block:
      run_call_block(static_cast<const CallBlock&>(statement), frame);
      return Flow::normal;
    case StatementKind::filter_block:
      return run_filter_block(static_cast<const FilterBlock&>(statement), frame);
    case StatementKind::with:
      return run_with(static_cast<const With&>(statement), frame);
    case StatementKind::generation:
      run_generation(static_cast<const Generation&>(statement), frame);
      return Flow::normal;
    case StatementKind::block:
      run_block(static_cast<const Block&>(statement));
      return Flow::normal;
    case StatementKind::break_:
      return Flow::break_loop;
    case StatementKind::continue_:
      return Flow::next_round;
    case StatementKind::no_loader:
      fail(FailureKind::type, "'{}': there is nothing to load other templates from",
           static_cast<const NoLoader&>(statement).tag);
  }
  return Flow::normal;
}

void Interpreter::write(const Value& value) {
  append_str(*out_, value, runtime_);
  if (out_->text().size() > runtime_.meter.limits().output_bytes) {
    fail(FailureKind::limit, "the output is larger than {} MiB", runtime_.meter.limits().output_bytes >> 20);
  }
}

// What a filter or call block makes is output as it is, so it has to be text.
void Interpreter::write_text(const Value& value) {
  if (!value.is_string()) fail(FailureKind::type, "expected str instance, {} found", value.type_name());
  write(value);
}

Interpreter::Flow Interpreter::run_if(const If& node, const FramePtr& frame) {
  for (const auto& [condition, body] : node.branches) {
    if (truthy(evaluate(*condition, frame))) return execute(body, frame);
  }
  return execute(node.otherwise, frame);
}

bool Interpreter::holds(const For& node, const FramePtr& outer, const Value& item) {
  OpenFrame own(*this, node.condition_function, outer);
  enter(node.condition_scope, own.frame());
  assign(node.condition_target, item, own.frame());
  return truthy(evaluate(*node.condition, own.frame()));
}

Interpreter::Flow Interpreter::run_for(const For& node, const FramePtr& frame) {
  const Value items = evaluate(*node.items, frame);
  if (!node.recursive) return run_rounds(node, frame, frame, items, 0, {});
  write(run_recursive(node, frame, items, 0));
  return Flow::normal;
}

Value Interpreter::run_recursive(const For& node, const FramePtr& outer, const Value& items, int depth) {
  Depth guard(*this, kCallWeight);
  OpenFrame own(*this, node.loop_function, outer);
  Capture capture(*this);
  run_rounds(node, own.frame(), outer, items, depth,
             [this, &node, outer](const Value& inner, int inner_depth) {
               return run_recursive(node, outer, inner, inner_depth);
             });
  return runtime_.string(capture.take());
}

Interpreter::Flow Interpreter::run_rounds(const For& node, const FramePtr& frame, const FramePtr& outer,
                                          const Value& items, int depth,
                                          std::function<Value(const Value&, int)> recurse) {
  auto iterator = iterate(items, runtime_);
  if (node.condition != nullptr) {
    iterator = std::make_unique<ConditionIterator>(*this, node, outer, std::move(iterator));
  }
  const Value sized = node.condition == nullptr ? items : Value();
  const Value loop_value =
      runtime_.object<LoopContext>(runtime_.meter, std::move(iterator), sized, depth, std::move(recurse));
  auto& loop = static_cast<LoopContext&>(loop_value.as_object());
  bool any_completed = false;
  Value item;
  while (loop.advance(item)) {
    assign(node.target, item, frame);
    frame->slots[node.loop_slot] = loop_value;
    enter(node.scope, frame);
    const Flow flow = execute(node.body, frame);
    if (flow == Flow::break_loop) break;
    if (flow == Flow::normal) any_completed = true;
  }
  leave(node.scope, frame);
  if (any_completed || node.otherwise.empty()) return Flow::normal;
  enter(node.otherwise_scope, frame);
  const Flow flow = execute(node.otherwise, frame);
  leave(node.otherwise_scope, frame);
  return flow;
}

void Interpreter::check_namespaces(const Target& target, const FramePtr& frame) {
  if (target.kind == Target::Kind::attribute) {
    const auto& holder = slot(target.slot, frame);
    if (!holder || holder->object_if<Namespace>() == nullptr) {
      fail(FailureKind::type, "cannot assign attribute on non-namespace object");
    }
  }
  for (const Target& item : target.items) check_namespaces(item, frame);
}

void Interpreter::assign(const Target& target, const Value& value, const FramePtr& frame) {
  switch (target.kind) {
    case Target::Kind::name:
      slot(target.slot, frame) = value;
      return;
    case Target::Kind::attribute: {
      if (target.attribute.starts_with('_')) {
        fail(FailureKind::type, "a namespace cannot hold the underscore-prefixed attribute '{}'",
             target.attribute);
      }
      slot(target.slot, frame)->object_if<Namespace>()->set(target.attribute, value, runtime_);
      return;
    }
    case Target::Kind::tuple:
      return unpack(target, value, frame);
  }
}

void Interpreter::unpack(const Target& target, const Value& value, const FramePtr& frame) {
  if (!is_iterable(value, runtime_)) {
    fail(FailureKind::type, "cannot unpack non-iterable {} object", value.type_name());
  }
  std::vector<Value> parts;
  Value part;
  const size_t wanted = target.items.size();
  for (auto items = iterate(value, runtime_); parts.size() <= wanted && items->next(part);) {
    parts.push_back(std::move(part));
  }
  if (parts.size() > wanted) fail(FailureKind::value, "too many values to unpack (expected {})", wanted);
  if (parts.size() < wanted) {
    fail(FailureKind::value, "not enough values to unpack (expected {}, got {})", wanted, parts.size());
  }
  for (size_t i = 0; i < wanted; ++i) assign(target.items[i], parts[i], frame);
}

void Interpreter::export_names(const Target& target, const FramePtr& frame) {
  if (target.kind == Target::Kind::name) exported_[target.name] = *slot(target.slot, frame);
  for (const Target& item : target.items) export_names(item, frame);
}

void Interpreter::run_set(const Set& node, const FramePtr& frame) {
  check_namespaces(node.target, frame);
  const Value value = evaluate(*node.value, frame);
  assign(node.target, value, frame);
  if (node.exports) export_names(node.target, frame);
}

Interpreter::Flow Interpreter::run_set_block(const SetBlock& node, const FramePtr& frame) {
  enter(node.scope, frame);
  Capture capture(*this);
  const Flow flow = execute(node.body, frame);
  if (flow != Flow::normal) return flow;
  Value text = runtime_.string(capture.take());
  if (node.filter != nullptr) text = filter(static_cast<const Filter&>(*node.filter), frame, &text);
  check_namespaces(node.target, frame);
  assign(node.target, text, frame);
  if (node.exports) export_names(node.target, frame);
  leave(node.scope, frame);
  return Flow::normal;
}

Interpreter::Flow Interpreter::run_filter_block(const FilterBlock& node, const FramePtr& frame) {
  enter(node.scope, frame);
  Capture capture(*this);
  const Flow flow = execute(node.body, frame);
  if (flow != Flow::normal) return flow;
  Value text = runtime_.string(capture.take());
  write_text(filter(static_cast<const Filter&>(*node.filter), frame, &text));
  leave(node.scope, frame);
  return Flow::normal;
}

Interpreter::Flow Interpreter::run_with(const With& node, const FramePtr& frame) {
  enter(node.scope, frame);
  for (const auto& [target, value] : node.assignments) assign(target, evaluate(*value, frame), frame);
  const Flow flow = execute(node.body, frame);
  leave(node.scope, frame);
  return flow;
}

void Interpreter::run_macro(const Macro& node, const FramePtr& frame) {
  const Value macro = runtime_.object<MacroObject>(*this, node.plan, frame);
  slot(node.slot, frame) = macro;
  if (node.exports) exported_[node.plan.name] = macro;
}

void Interpreter::run_call_block(const CallBlock& node, const FramePtr& frame) {
  const Value caller = runtime_.object<MacroObject>(*this, node.plan, frame);
  write_text(call(static_cast<const Call&>(*node.call), frame, &caller));
}

void Interpreter::run_generation(const Generation& node, const FramePtr& frame) {
  const Value text = call_macro(node.plan, frame, {});
  const size_t begin = root_.text().size();
  generations_.push_back({begin, begin + text.text().size()});
  write(text);
}

void Interpreter::run_block(const Block& node) {
  OpenFrame own(*this, node.function, nullptr);
  enter(node.scope, own.frame());
  execute(node.body, own.frame());
}

void Interpreter::bind_parameters(const MacroPlan& plan, Arguments& arguments, FunctionFrame& frame) {
  auto take_named = [&](std::string_view name) -> std::optional<Value> {
    auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                              [&](const auto& argument) { return argument.first == name; });
    if (found == arguments.named.end()) return std::nullopt;
    Value value = std::move(found->second);
    arguments.named.erase(found);
    return value;
  };
  const size_t given = arguments.positional.size();
  const size_t wanted = plan.parameters.size();
  runtime_.meter.step(wanted * arguments.named.size() / 8);
  for (size_t i = 0; i < wanted; ++i) {
    auto& target = frame.slots[plan.parameters[i].slot];
    target = i < given ? arguments.positional[i] : take_named(plan.parameters[i].name);
  }
  if (plan.caller) {
    auto caller = take_named("caller");
    if (!caller || caller->is_none()) caller = runtime_.undefined("no caller defined");
    frame.slots[*plan.caller] = std::move(caller);
  }
  if (plan.kwargs) {
    auto rest = runtime_.new_dict();
    for (auto& [name, value] : arguments.named)
      rest->set(runtime_.string(name), std::move(value), runtime_.meter);
    frame.slots[*plan.kwargs] = runtime_.dict(std::move(rest));
  } else if (!arguments.named.empty()) {
    fail(FailureKind::type, "macro '{}' takes no keyword argument '{}'", plan.name, arguments.named[0].first);
  }
  const size_t extra = std::min(given, wanted);
  if (plan.varargs) {
    const auto begin = arguments.positional.begin() + static_cast<std::ptrdiff_t>(extra);
    frame.slots[*plan.varargs] = runtime_.tuple({begin, arguments.positional.end()});
  } else if (given > wanted) {
    fail(FailureKind::type, "macro '{}' takes not more than {} argument(s)", plan.name, wanted);
  }
}

Value Interpreter::call_macro(const MacroPlan& plan, const FramePtr& outer, Arguments arguments) {
  Depth depth(*this, kCallWeight);
  runtime_.meter.step(1 + plan.function.slots / 8);
  OpenFrame own(*this, plan.function, outer);
  bind_parameters(plan, arguments, *own.frame());
  enter(plan.scope, own.frame());
  for (const Parameter& parameter : plan.parameters) {
    auto& value = own.frame()->slots[parameter.slot];
    if (value) continue;
    if (parameter.fallback != nullptr) {
      Value made = evaluate(*parameter.fallback, own.frame());
      own.frame()->slots[parameter.slot] = std::move(made);
    } else {
      value = runtime_.undefined(fmt::format("parameter '{}' was not provided", parameter.name));
    }
  }
  Capture capture(*this);
  execute(plan.body, own.frame());
  return runtime_.string(capture.take());
}

}  // namespace rafter::text::jinja
