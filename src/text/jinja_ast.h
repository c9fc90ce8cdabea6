// The template as a tree. Names are resolved to slots before rendering (jinja_scope.h), so that evaluating
// one is an array access and Jinja's compile-time scoping is reproduced exactly.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace rafter::text::jinja {

struct FilterEntry;
struct TestEntry;

// A variable: climb `hops` functions outward, take slot `index` there.
struct SlotRef {
  uint32_t hops = 0;
  uint32_t index = 0;
};

// How a scope's variables start, each time the scope is entered.
struct SlotLoad {
  enum class From : uint8_t {
    context,    // the render's variables, by name
    alias,      // an outer scope's variable of the same name
    undefined,  // set before it is read
  };
  uint32_t index;  // the slot, in the scope's own function
  From from;
  SlotRef outer;     // of an alias
  std::string name;  // of a context load
};

struct ScopePlan {
  std::vector<SlotLoad> loads;
  std::vector<uint32_t> slots;  // all of the scope's own, unset again on leaving
};

// What is a function of its own when rendering: the template, a macro, a call block, a recursive loop, a
// loop's condition. Its slots live until nothing refers to it.
struct FunctionPlan {
  uint32_t slots = 0;
};

enum class ExpressionKind : uint8_t {
  constant,
  name,
  attribute,
  item,
  slice,
  call,
  filter,
  test,
  unary,
  binary,
  logic,
  compare,
  concat,
  conditional,
  list,
  tuple,
  dict,
};

struct Expression {
  Expression(ExpressionKind k, int l) : kind(k), line(l) {}
  virtual ~Expression() = default;
  ExpressionKind kind;
  int line;
  int height = 1;  // nodes on the longest way down
};
using ExpressionPtr = std::unique_ptr<Expression>;

struct Constant : Expression {
  Constant(Value v, int l) : Expression(ExpressionKind::constant, l), value(std::move(v)) {}
  Value value;
};

struct Name : Expression {
  Name(std::string n, int l) : Expression(ExpressionKind::name, l), name(std::move(n)) {}
  std::string name;
  SlotRef slot;
};

struct Attribute : Expression {
  explicit Attribute(int l) : Expression(ExpressionKind::attribute, l) {}
  ExpressionPtr object;
  std::string name;
};

struct Item : Expression {
  explicit Item(int l) : Expression(ExpressionKind::item, l) {}
  ExpressionPtr object;
  ExpressionPtr key;
};

struct Slice : Expression {
  explicit Slice(int l) : Expression(ExpressionKind::slice, l) {}
  ExpressionPtr object;
  ExpressionPtr start, stop, step;  // each may be null
};

struct ArgumentList {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional;  // *args
  ExpressionPtr more_named;       // **kwargs
};

struct Call : Expression {
  explicit Call(int l) : Expression(ExpressionKind::call, l) {}
  ExpressionPtr callee;
  ArgumentList arguments;
};

struct Filter : Expression {
  explicit Filter(int l) : Expression(ExpressionKind::filter, l) {}
  ExpressionPtr input;  // null in a filter block: its text
  std::string name;
  ArgumentList arguments;
  const FilterEntry* entry = nullptr;  // null: no such filter, an error if it is reached
};

struct Test : Expression {
  explicit Test(int l) : Expression(ExpressionKind::test, l) {}
  ExpressionPtr input;
  std::string name;
  ArgumentList arguments;
  const TestEntry* entry = nullptr;
};

enum class UnaryOperator : uint8_t { negative, positive, logical_not };
struct Unary : Expression {
  Unary(UnaryOperator o, int l) : Expression(ExpressionKind::unary, l), operation(o) {}
  UnaryOperator operation;
  ExpressionPtr operand;
};

enum class BinaryOperator : uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };
struct Binary : Expression {
  Binary(BinaryOperator o, int l) : Expression(ExpressionKind::binary, l), operation(o) {}
  BinaryOperator operation;
  ExpressionPtr left, right;
};

// `and`, `or`: the value of the operand that decides.
struct Logic : Expression {
  Logic(bool o, int l) : Expression(ExpressionKind::logic, l), is_or(o) {}
  bool is_or;
  ExpressionPtr left, right;
};

enum class CompareOperator : uint8_t {
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in
};
struct Compare : Expression {
  explicit Compare(int l) : Expression(ExpressionKind::compare, l) {}
  ExpressionPtr first;
  std::vector<std::pair<CompareOperator, ExpressionPtr>> rest;  // chained: a < b < c
};

struct Concat : Expression {
  explicit Concat(int l) : Expression(ExpressionKind::concat, l) {}
  std::vector<ExpressionPtr> parts;
};

struct Conditional : Expression {
  explicit Conditional(int l) : Expression(ExpressionKind::conditional, l) {}
  ExpressionPtr condition, then, otherwise;  // `otherwise` may be null
};

struct Display : Expression {  // a list or a tuple
  Display(ExpressionKind k, int l) : Expression(k, l) {}
  std::vector<ExpressionPtr> items;
};

struct DictDisplay : Expression {
  explicit DictDisplay(int l) : Expression(ExpressionKind::dict, l) {}
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items;
};

// What is assigned to: a name, an attribute of a namespace, or several.
struct Target {
  enum class Kind : uint8_t { name, attribute, tuple } kind;
  int line;
  std::string name;       // of the variable or the namespace
  std::string attribute;  // of the namespace
  std::vector<Target> items;
  SlotRef slot;
};

enum class StatementKind : uint8_t {
  output,
  if_,
  for_,
  set,
  set_block,
  macro,
  call_block,
  filter_block,
  with,
  generation,
  block,
  break_,
  continue_,
  no_loader,
};

struct Statement {
  Statement(StatementKind k, int l) : kind(k), line(l) {}
  virtual ~Statement() = default;
  StatementKind kind;
  int line;
};
using StatementPtr = std::unique_ptr<Statement>;
using Body = std::vector<StatementPtr>;

struct Output : Statement {
  explicit Output(int l) : Statement(StatementKind::output, l) {}
  std::vector<ExpressionPtr> parts;
};

struct If : Statement {
  explicit If(int l) : Statement(StatementKind::if_, l) {}
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
};

struct For : Statement {
  explicit For(int l) : Statement(StatementKind::for_, l) {}
  Target target;
  ExpressionPtr items;
  ExpressionPtr condition;  // may be null
  bool recursive = false;
  Body body, otherwise;

  Target condition_target;           // `target` again, in the condition's function
  ScopePlan scope, otherwise_scope;  // of one round; of the else part
  ScopePlan condition_scope;
  FunctionPlan loop_function;  // if recursive
  FunctionPlan condition_function;
  uint32_t loop_slot = 0;  // of the variable `loop`
};

struct Set : Statement {
  explicit Set(int l) : Statement(StatementKind::set, l) {}
  Target target;
  ExpressionPtr value;
  bool exports = false;  // at top level, where blocks see it too
};

struct SetBlock : Statement {
  explicit SetBlock(int l) : Statement(StatementKind::set_block, l) {}
  Target target;
  ExpressionPtr filter;  // a chain of Filters ending in the text, or null
  Body body;
  bool exports = false;
  ScopePlan scope;
};

struct Parameter {
  std::string name;
  ExpressionPtr fallback;  // the default, or null
  uint32_t slot = 0;
};

// A macro's signature and body, and those of a call or generation block.
struct MacroPlan {
  std::string name;  // empty for a block
  std::vector<Parameter> parameters;
  Body body;
  ScopePlan scope;
  FunctionPlan function;
  std::optional<uint32_t> caller, varargs, kwargs;  // slots, if the body uses them
};

struct Macro : Statement {
  explicit Macro(int l) : Statement(StatementKind::macro, l) {}
  MacroPlan plan;
  SlotRef slot;
  bool exports = false;
};

struct CallBlock : Statement {
  explicit CallBlock(int l) : Statement(StatementKind::call_block, l) {}
  MacroPlan plan;
  ExpressionPtr call;  // a Call
};

// {% generation %}: what the assistant said, for training masks.
struct Generation : Statement {
  explicit Generation(int l) : Statement(StatementKind::generation, l) {}
  MacroPlan plan;
};

struct FilterBlock : Statement {
  explicit FilterBlock(int l) : Statement(StatementKind::filter_block, l) {}
  ExpressionPtr filter;
  Body body;
  ScopePlan scope;
};

struct With : Statement {
  explicit With(int l) : Statement(StatementKind::with, l) {}
  std::vector<std::pair<Target, ExpressionPtr>> assignments;
  Body body;
  ScopePlan scope;
};

struct Block : Statement {
  explicit Block(int l) : Statement(StatementKind::block, l) {}
  std::string name;
  Body body;
  ScopePlan scope;
  FunctionPlan function;
};

struct LoopControl : Statement {  // break, continue
  LoopControl(StatementKind k, int l) : Statement(k, l) {}
};

// include, import, extends: nothing is there to load another template from, an error if it is reached.
struct NoLoader : Statement {
  explicit NoLoader(int l) : Statement(StatementKind::no_loader, l) {}
  std::string tag;
  std::vector<ExpressionPtr> expressions;
  std::vector<Target> targets;
};

struct Tree {
  Body body;
  ScopePlan scope;
  FunctionPlan function;
};

}  // namespace rafter::text::jinja
