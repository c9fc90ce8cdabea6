#include "text/jinja_walk.h"

namespace rafter::text::jinja {
namespace {

void walk_arguments(ArgumentList& arguments, const std::function<void(Expression&)>& visit) {
  for (ExpressionPtr& value : arguments.positional) visit(*value);
  for (auto& [name, value] : arguments.named) visit(*value);
  if (arguments.more_positional != nullptr) visit(*arguments.more_positional);
  if (arguments.more_named != nullptr) visit(*arguments.more_named);
}

void walk_plan(const MacroPlan& plan, const OnName& on_name) {
  for (const Parameter& parameter : plan.parameters) on_name(parameter.name, NameUse::parameter, 0);
  for (const Parameter& parameter : plan.parameters) walk_names(parameter.fallback.get(), on_name);
  walk_names(plan.body, on_name);
}

void walk_for(const For& node, const OnName& on_name) {
  walk_names(node.target, NameUse::store, on_name);
  walk_names(node.items.get(), on_name);
  walk_names(node.body, on_name);
  walk_names(node.otherwise, on_name);
  walk_names(node.condition.get(), on_name);
}

void walk_if(const If& node, const OnName& on_name) {
  for (const auto& [condition, body] : node.branches) {
    walk_names(condition.get(), on_name);
    walk_names(body, on_name);
  }
  walk_names(node.otherwise, on_name);
}

void walk_with(const With& node, const OnName& on_name) {
  for (const auto& [target, value] : node.assignments) walk_names(target, NameUse::parameter, on_name);
  for (const auto& [target, value] : node.assignments) walk_names(value.get(), on_name);
  walk_names(node.body, on_name);
}

}  // namespace

void for_each_child(Expression& expression, const std::function<void(Expression&)>& visit) {
  auto maybe = [&](const ExpressionPtr& child) {
    if (child != nullptr) visit(*child);
  };
  switch (expression.kind) {
    case ExpressionKind::constant:
    case ExpressionKind::name:
      return;
    case ExpressionKind::attribute:
      return maybe(static_cast<Attribute&>(expression).object);
    case ExpressionKind::item: {
      auto& node = static_cast<Item&>(expression);
      maybe(node.object);
      return maybe(node.key);
    }
    case ExpressionKind::slice: {
      auto& node = static_cast<Slice&>(expression);
      for (const ExpressionPtr* child : {&node.object, &node.start, &node.stop, &node.step}) maybe(*child);
      return;
    }
    case ExpressionKind::call: {
      auto& node = static_cast<Call&>(expression);
      maybe(node.callee);
      return walk_arguments(node.arguments, visit);
    }
    case ExpressionKind::filter: {
      auto& node = static_cast<Filter&>(expression);
      maybe(node.input);
      return walk_arguments(node.arguments, visit);
    }
    case ExpressionKind::test: {
      auto& node = static_cast<Test&>(expression);
      maybe(node.input);
      return walk_arguments(node.arguments, visit);
    }
    case ExpressionKind::unary:
      return maybe(static_cast<Unary&>(expression).operand);
    case ExpressionKind::binary: {
      auto& node = static_cast<Binary&>(expression);
      maybe(node.left);
      return maybe(node.right);
    }
    case ExpressionKind::logic: {
      auto& node = static_cast<Logic&>(expression);
      maybe(node.left);
      return maybe(node.right);
    }
    case ExpressionKind::compare: {
      auto& node = static_cast<Compare&>(expression);
      maybe(node.first);
      for (auto& [operation, operand] : node.rest) maybe(operand);
      return;
    }
    case ExpressionKind::concat:
      for (ExpressionPtr& part : static_cast<Concat&>(expression).parts) maybe(part);
      return;
    case ExpressionKind::conditional: {
      auto& node = static_cast<Conditional&>(expression);
      for (const ExpressionPtr* child : {&node.condition, &node.then, &node.otherwise}) maybe(*child);
      return;
    }
    case ExpressionKind::list:
    case ExpressionKind::tuple:
      for (ExpressionPtr& item : static_cast<Display&>(expression).items) maybe(item);
      return;
    case ExpressionKind::dict:
      for (auto& [key, value] : static_cast<DictDisplay&>(expression).items) {
        maybe(key);
        maybe(value);
      }
      return;
  }
}

void walk_names(Expression* expression, const OnName& on_name) {
  if (expression == nullptr) return;
  if (expression->kind == ExpressionKind::name) {
    on_name(static_cast<Name&>(*expression).name, NameUse::load, expression->line);
    return;
  }
  for_each_child(*expression, [&](Expression& child) { walk_names(&child, on_name); });
}

void walk_names(const Target& target, NameUse use, const OnName& on_name) {
  if (target.kind == Target::Kind::name) on_name(target.name, use, target.line);
  for (const Target& item : target.items) walk_names(item, use, on_name);
}

void walk_names(const Body& body, const OnName& on_name) {
  for (const StatementPtr& statement : body) walk_names(*statement, on_name);
}

void walk_names(const Statement& statement, const OnName& on_name) {
  switch (statement.kind) {
    case StatementKind::output:
      for (const ExpressionPtr& part : static_cast<const Output&>(statement).parts)
        walk_names(part.get(), on_name);
      return;
    case StatementKind::if_:
      return walk_if(static_cast<const If&>(statement), on_name);
    case StatementKind::for_:
      return walk_for(static_cast<const For&>(statement), on_name);
    case StatementKind::set: {
      const auto& node = static_cast<const Set&>(statement);
      walk_names(node.target, NameUse::store, on_name);
      return walk_names(node.value.get(), on_name);
    }
    case StatementKind::set_block: {
      const auto& node = static_cast<const SetBlock&>(statement);
      walk_names(node.target, NameUse::store, on_name);
      walk_names(node.filter.get(), on_name);
      return walk_names(node.body, on_name);
    }
    case StatementKind::macro:
      return walk_plan(static_cast<const Macro&>(statement).plan, on_name);
    case StatementKind::call_block: {
      const auto& node = static_cast<const CallBlock&>(statement);
      walk_names(node.call.get(), on_name);
      return walk_plan(node.plan, on_name);
    }
    case StatementKind::generation:
      return walk_plan(static_cast<const Generation&>(statement).plan, on_name);
    case StatementKind::filter_block: {
      const auto& node = static_cast<const FilterBlock&>(statement);
      walk_names(node.body, on_name);
      return walk_names(node.filter.get(), on_name);
    }
    case StatementKind::with:
      return walk_with(static_cast<const With&>(statement), on_name);
    case StatementKind::no_loader:
      for (const ExpressionPtr& value : static_cast<const NoLoader&>(statement).expressions) {
        walk_names(value.get(), on_name);
      }
      return;
    case StatementKind::block:
    case StatementKind::break_:
    case StatementKind::continue_:
      return;
  }
}

}  // namespace rafter::text::jinja
