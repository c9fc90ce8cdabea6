#include "text/jinja_scope.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "text/jinja_failure.h"
#include "text/jinja_filters.h"
#include "text/jinja_tests.h"
#include "text/jinja_walk.h"

namespace rafter::text::jinja {
namespace {

[[noreturn]] void fail_at(int line, std::string message) {
  throw Failure{FailureKind::syntax, std::move(message), line};
}

// The names a scope has of its own. A name that a scope sets anywhere is its own everywhere in it; where its
// value begins depends on what was met first when reading the scope from top to bottom.
class Symbols {
 public:
  Symbols(const Symbols* parent, FunctionPlan& function, bool new_function)
      : parent_(parent), function_(function), new_function_(new_function) {}

  FunctionPlan& function() const { return function_; }

  void load(const std::string& name) {
    if (!find(name)) own(name, SlotLoad::From::context);
  }

  // `in_branch`: inside an `if` of this scope, so the name may stay unset.
  void store(const std::string& name, bool in_branch) {
    if (own_.contains(name)) return;
    if (parent_ != nullptr) {
      if (auto outer = parent_->find(name)) {
        if (new_function_) ++outer->hops;
        own(name, SlotLoad::From::alias, *outer);
        return;
      }
    }
    own(name, in_branch ? SlotLoad::From::context : SlotLoad::From::undefined);
  }

  uint32_t parameter(const std::string& name) {
    auto known = own_.find(name);
    if (known == own_.end()) known = own_.emplace(name, function_.slots++).first;
    std::erase_if(loads_, [&](const SlotLoad& load) { return load.index == known->second; });
    return known->second;
  }

  std::optional<SlotRef> find(const std::string& name) const {
    SlotRef found;
    for (const Symbols* scope = this; scope != nullptr; scope = scope->parent_) {
      if (auto known = scope->own_.find(name); known != scope->own_.end()) {
        found.index = known->second;
        return found;
      }
      if (scope->new_function_) ++found.hops;
    }
    return std::nullopt;
  }

  ScopePlan plan() const {
    ScopePlan plan{loads_, {}};
    for (const auto& [name, index] : own_) plan.slots.push_back(index);
    return plan;
  }

 private:
  void own(const std::string& name, SlotLoad::From from, SlotRef outer = {}) {
    const uint32_t index = function_.slots++;
    own_.emplace(name, index);
    loads_.push_back({index, from, outer, from == SlotLoad::From::context ? name : std::string()});
  }

  const Symbols* parent_;
  FunctionPlan& function_;
  bool new_function_;
  std::unordered_map<std::string, uint32_t> own_;
  std::vector<SlotLoad> loads_;
};

// Reads one scope from top to bottom. Inner scopes are not entered; what they evaluate out here is.
class ScopeReader {
 public:
  explicit ScopeReader(Symbols& symbols) : symbols_(symbols) {}

  void read(Expression* expression) {
    walk_names(expression, [&](const std::string& name, NameUse, int) { symbols_.load(name); });
  }

  void read_parameters(const Target& target) {
    walk_names(target, NameUse::parameter,
               [&](const std::string& name, NameUse, int) { symbols_.parameter(name); });
  }

  void read(const Body& body) {
    for (const StatementPtr& statement : body) read(*statement);
  }

 private:
  void store(const Target& target) {
    if (target.kind == Target::Kind::name) symbols_.store(target.name, branches_ > 0);
    if (target.kind == Target::Kind::attribute) symbols_.load(target.name);
    for (const Target& item : target.items) store(item);
  }

  void read(const Statement& statement) {
    switch (statement.kind) {
      case StatementKind::output:
        for (const ExpressionPtr& part : static_cast<const Output&>(statement).parts) read(part.get());
        return;
      case StatementKind::if_:
        return read_if(static_cast<const If&>(statement));
      case StatementKind::for_:
        return read(static_cast<const For&>(statement).items.get());
      case StatementKind::set:
        read(static_cast<const Set&>(statement).value.get());
        return store(static_cast<const Set&>(statement).target);
      case StatementKind::set_block:
        return store(static_cast<const SetBlock&>(statement).target);
      case StatementKind::macro:
        return symbols_.store(static_cast<const Macro&>(statement).plan.name, branches_ > 0);
      case StatementKind::call_block:
        return read(static_cast<const CallBlock&>(statement).call.get());
      case StatementKind::filter_block:
        return read(static_cast<const FilterBlock&>(statement).filter.get());
      case StatementKind::with:
        for (const auto& [target, value] : static_cast<const With&>(statement).assignments) read(value.get());
        return;
      case StatementKind::no_loader: {
        const auto& node = static_cast<const NoLoader&>(statement);
        for (const ExpressionPtr& value : node.expressions) read(value.get());
        for (const Target& target : node.targets) store(target);
        return;
      }
      default:
        return;
    }
  }

  void read_if(const If& node) {
    read(node.branches[0].first.get());
    ++branches_;
    for (size_t i = 0; i < node.branches.size(); ++i) {
      if (i > 0) read(node.branches[i].first.get());
      read(node.branches[i].second);
    }
    read(node.otherwise);
    --branches_;
  }

  Symbols& symbols_;
  int branches_ = 0;
};

struct Frame {
  const Symbols* symbols;
  bool top_level = false;
  bool in_branch = false;  // an unknown filter is an error only when it is reached
  bool in_loop = false;    // `break` has a loop to leave
};

class Resolver {
 public:
  void run(Tree& tree) {
    Symbols symbols(nullptr, tree.function, true);
    ScopeReader(symbols).read(tree.body);
    resolve(tree.body, Frame{&symbols, true, false, false});
    tree.scope = symbols.plan();
  }

 private:
  SlotRef slot(const std::string& name, int line, const Frame& frame) const {
    auto found = frame.symbols->find(name);
    if (!found) fail_at(line, fmt::format("the name '{}' cannot be used here", name));
    return *found;
  }

  void resolve(Target& target, const Frame& frame) {
    if (target.kind != Target::Kind::tuple) target.slot = slot(target.name, target.line, frame);
    for (Target& item : target.items) resolve(item, frame);
  }

  void resolve(Expression* expression, const Frame& frame) {
    if (expression == nullptr) return;
    Frame inner = frame;
    switch (expression->kind) {
      case ExpressionKind::name: {
        auto& node = static_cast<Name&>(*expression);
        node.slot = slot(node.name, node.line, frame);
        return;
      }
      case ExpressionKind::filter: {
        auto& node = static_cast<Filter&>(*expression);
        node.entry = find_filter(node.name);
        if (node.entry == nullptr && !frame.in_branch)
          fail_at(node.line, fmt::format("no filter named '{}'", node.name));
        break;
      }
      case ExpressionKind::test: {
        auto& node = static_cast<Test&>(*expression);
        node.entry = find_test(node.name);
        if (node.entry == nullptr && !frame.in_branch)
          fail_at(node.line, fmt::format("no test named '{}'", node.name));
        break;
      }
      case ExpressionKind::conditional:
        inner.in_branch = true;
        break;
      default:
        break;
    }
    for_each_child(*expression, [&](Expression& child) { resolve(&child, inner); });
  }

  void resolve(Body& body, const Frame& frame) {
    for (StatementPtr& statement : body) resolve(*statement, frame);
  }

  void resolve(Statement& statement, const Frame& frame) {
    switch (statement.kind) {
      case StatementKind::output:
        for (ExpressionPtr& part : static_cast<Output&>(statement).parts) resolve(part.get(), frame);
        return;
      case StatementKind::if_:
        return resolve_if(static_cast<If&>(statement), frame);
      case StatementKind::for_:
        return resolve_for(static_cast<For&>(statement), frame);
      case StatementKind::set: {
        auto& node = static_cast<Set&>(statement);
        resolve(node.target, frame);
        resolve(node.value.get(), frame);
        node.exports = frame.top_level;
        return;
      }
      case StatementKind::set_block:
        return resolve_set_block(static_cast<SetBlock&>(statement), frame);
      case StatementKind::macro: {
        auto& node = static_cast<Macro&>(statement);
        resolve_plan(node.plan, node.line, frame);
        node.slot = slot(node.plan.name, node.line, frame);
        node.exports = frame.top_level;
        return;
      }
      case StatementKind::call_block: {
        auto& node = static_cast<CallBlock&>(statement);
        resolve_plan(node.plan, node.line, frame);
        return resolve(node.call.get(), frame);
      }
      case StatementKind::generation: {
        auto& node = static_cast<Generation&>(statement);
        return resolve_plan(node.plan, node.line, frame);
      }
      case StatementKind::filter_block: {
        auto& node = static_cast<FilterBlock&>(statement);
        Symbols symbols(frame.symbols, frame.symbols->function(), false);
        ScopeReader reader(symbols);
        reader.read(node.body);
        reader.read(node.filter.get());
        const Frame inner{&symbols, false, false, frame.in_loop};
        resolve(node.body, inner);
        resolve(node.filter.get(), inner);
        node.scope = symbols.plan();
        return;
      }
      case StatementKind::with:
        return resolve_with(static_cast<With&>(statement), frame);
      case StatementKind::block:
        return resolve_block(static_cast<Block&>(statement));
      case StatementKind::break_:
      case StatementKind::continue_:
        if (!frame.in_loop) fail_at(statement.line, "'break' or 'continue' outside a loop");
        return;
      case StatementKind::no_loader: {
        auto& node = static_cast<NoLoader&>(statement);
        for (ExpressionPtr& value : node.expressions) resolve(value.get(), frame);
        return;
      }
    }
  }

  void resolve_if(If& node, const Frame& frame) {
    Frame inner = frame;
    inner.in_branch = true;
    for (auto& [condition, body] : node.branches) {
      resolve(condition.get(), inner);
      resolve(body, inner);
    }
    resolve(node.otherwise, inner);
  }

  void resolve_for(For& node, const Frame& frame) {
    walk_names(node, [&](const std::string& name, NameUse use, int line) {
      if (use == NameUse::store && name == "loop") fail_at(line, "can't assign to the special loop variable");
    });
    resolve(node.items.get(), frame);
    if (node.condition != nullptr) resolve_condition(node, frame);

    FunctionPlan& function = node.recursive ? node.loop_function : frame.symbols->function();
    Symbols symbols(frame.symbols, function, node.recursive);
    node.loop_slot = symbols.parameter("loop");
    ScopeReader reader(symbols);
    reader.read_parameters(node.target);
    reader.read(node.body);
    const Frame inner{&symbols, false, false, true};
    resolve(node.target, inner);
    resolve(node.body, inner);
    node.scope = symbols.plan();

    Symbols otherwise(frame.symbols, function, node.recursive);
    ScopeReader(otherwise).read(node.otherwise);
    resolve(node.otherwise, Frame{&otherwise, false, false, frame.in_loop && !node.recursive});
    node.otherwise_scope = otherwise.plan();
  }

  // The condition is a function of its own: it sees neither `loop` nor what the body sets.
  void resolve_condition(For& node, const Frame& frame) {
    Symbols symbols(frame.symbols, node.condition_function, true);
    ScopeReader reader(symbols);
    reader.read_parameters(node.target);
    reader.read(node.condition.get());
    const Frame inner{&symbols, false, false, false};
    node.condition_target = node.target;
    resolve(node.condition_target, inner);
    resolve(node.condition.get(), inner);
    node.condition_scope = symbols.plan();
  }

  void resolve_set_block(SetBlock& node, const Frame& frame) {
    Symbols symbols(frame.symbols, frame.symbols->function(), false);
    ScopeReader(symbols).read(node.body);
    const Frame inner{&symbols, false, false, frame.in_loop};
    resolve(node.body, inner);
    resolve(node.target, frame);
    resolve(node.filter.get(), inner);
    node.exports = frame.top_level;
    node.scope = symbols.plan();
  }

  void resolve_with(With& node, const Frame& frame) {
    Symbols symbols(frame.symbols, frame.symbols->function(), false);
    ScopeReader reader(symbols);
    for (auto& [target, value] : node.assignments) reader.read_parameters(target);
    reader.read(node.body);
    const Frame inner{&symbols, false, false, frame.in_loop};
    for (auto& [target, value] : node.assignments) {
      resolve(target, inner);
      resolve(value.get(), frame);
    }
    resolve(node.body, inner);
    node.scope = symbols.plan();
  }

  void resolve_block(Block& node) {
    if (!block_names_.insert(node.name).second)
      fail_at(node.line, fmt::format("block '{}' defined twice", node.name));
    Symbols symbols(nullptr, node.function, true);
    ScopeReader(symbols).read(node.body);
    resolve(node.body, Frame{&symbols, false, false, false});
    node.scope = symbols.plan();
  }

  void resolve_plan(MacroPlan& plan, int line, const Frame& frame) {
    Symbols symbols(frame.symbols, plan.function, true);
    ScopeReader reader(symbols);
    for (Parameter& parameter : plan.parameters) parameter.slot = symbols.parameter(parameter.name);
    for (Parameter& parameter : plan.parameters) reader.read(parameter.fallback.get());
    reader.read(plan.body);
    declare_specials(plan, line, symbols);
    const Frame inner{&symbols, false, false, false};
    for (Parameter& parameter : plan.parameters) resolve(parameter.fallback.get(), inner);
    resolve(plan.body, inner);
    plan.scope = symbols.plan();
  }

  // `caller`, `kwargs` and `varargs` are there for a body that reads them before it sets them.
  static void declare_specials(MacroPlan& plan, int line, Symbols& symbols) {
    std::set<std::string> names = {"caller", "kwargs", "varargs"}, undeclared;
    walk_names(plan.body, [&](const std::string& name, NameUse use, int) {
      if (undeclared == names) return;
      if (use != NameUse::load) {
        names.erase(name);
      } else if (names.contains(name)) {
        undeclared.insert(name);
      }
    });
    auto explicit_parameter = [&](std::string_view name) {
      return std::find_if(plan.parameters.begin(), plan.parameters.end(),
                          [&](const Parameter& parameter) { return parameter.name == name; });
    };
    if (undeclared.contains("caller")) {
      const auto caller = explicit_parameter("caller");
      if (caller == plan.parameters.end()) {
        plan.caller = symbols.parameter("caller");
      } else if (caller->fallback == nullptr) {
        fail_at(line, "the special argument 'caller' must be omitted or be given a default");
      }
    }
    if (undeclared.contains("kwargs") && explicit_parameter("kwargs") == plan.parameters.end()) {
      plan.kwargs = symbols.parameter("kwargs");
    }
    if (undeclared.contains("varargs") && explicit_parameter("varargs") == plan.parameters.end()) {
      plan.varargs = symbols.parameter("varargs");
    }
  }

  std::set<std::string> block_names_;
};

}  // namespace

void resolve_scopes(Tree& tree) { Resolver().run(tree); }

}  // namespace rafter::text::jinja
