// The interpreter: walks the resolved tree, writing text.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_runtime.h"

namespace rafter::text::jinja {

// The variables of one call of a function (FunctionPlan). An unset slot is a name without a value yet.
struct FunctionFrame {
  FunctionFrame(Meter& meter, const FunctionPlan& plan, std::shared_ptr<FunctionFrame> outer_frame)
      : slots(plan.slots),
        outer(std::move(outer_frame)),
        charge(meter, sizeof(FunctionFrame) + kAllocationBytes + plan.slots * sizeof(std::optional<Value>)) {}

  std::vector<std::optional<Value>> slots;
  std::shared_ptr<FunctionFrame> outer;
  Charge charge;
};
using FramePtr = std::shared_ptr<FunctionFrame>;

class Interpreter {
 public:
  // `variables` outlives the interpreter.
  Interpreter(const Dict& variables, Runtime& runtime)
      : variables_(variables), runtime_(runtime), out_(&root_), root_(runtime.meter) {}

  // Renders the template. Throws Failure, with its line.
  Text run(const Tree& tree);
  // Where `generation` blocks stand in the output.
  const std::vector<ByteRange>& generations() const { return generations_; }

  // For macros and lazy loop conditions, which run later.
  Value call_macro(const MacroPlan& plan, const FramePtr& outer, Arguments arguments);
  bool holds(const For& node, const FramePtr& outer, const Value& item);

 private:
  enum class Flow : uint8_t { normal, break_loop, next_round };
  class Depth;
  class Capture;
  class OpenFrame;

  Flow execute(const Body& body, const FramePtr& frame);
  Flow execute(const Statement& statement, const FramePtr& frame);
  Flow run_if(const If& node, const FramePtr& frame);
  Flow run_for(const For& node, const FramePtr& frame);
  Flow run_rounds(const For& node, const FramePtr& frame, const FramePtr& outer, const Value& items,
                  int depth, std::function<Value(const Value&, int)> recurse);
  Value run_recursive(const For& node, const FramePtr& outer, const Value& items, int depth);
  void run_set(const Set& node, const FramePtr& frame);
  Flow run_set_block(const SetBlock& node, const FramePtr& frame);
  Flow run_filter_block(const FilterBlock& node, const FramePtr& frame);
  Flow run_with(const With& node, const FramePtr& frame);
  void run_macro(const Macro& node, const FramePtr& frame);
  void run_call_block(const CallBlock& node, const FramePtr& frame);
  void run_generation(const Generation& node, const FramePtr& frame);
  void run_block(const Block& node);
  void write(const Value& value);
  void write_text(const Value& value);

  void enter(const ScopePlan& scope, const FramePtr& frame);
  void leave(const ScopePlan& scope, const FramePtr& frame);
  void assign(const Target& target, const Value& value, const FramePtr& frame);
  void unpack(const Target& target, const Value& value, const FramePtr& frame);
  void check_namespaces(const Target& target, const FramePtr& frame);
  void export_names(const Target& target, const FramePtr& frame);
  std::optional<Value>& slot(SlotRef ref, const FramePtr& frame) const;
  std::optional<Value> look_up(const std::string& name);
  void bind_parameters(const MacroPlan& plan, Arguments& arguments, FunctionFrame& frame);

  Value evaluate(const Expression& expression, const FramePtr& frame);
  Value evaluate_optional(const ExpressionPtr& expression, const FramePtr& frame);
  Value name(const Name& node, const FramePtr& frame);
  Value attribute(const Attribute& node, const FramePtr& frame);
  Value item(const Item& node, const FramePtr& frame);
  Value slice(const Slice& node, const FramePtr& frame);
  Value call(const Call& node, const FramePtr& frame, const Value* caller = nullptr);
  Value filter(const Filter& node, const FramePtr& frame, const Value* block_text = nullptr);
  Value test(const Test& node, const FramePtr& frame);
  Value unary(const Unary& node, const FramePtr& frame);
  Value binary(const Binary& node, const FramePtr& frame);
  Value logic(const Logic& node, const FramePtr& frame);
  Value compare(const Compare& node, const FramePtr& frame);
  Value concat(const Concat& node, const FramePtr& frame);
  Value conditional(const Conditional& node, const FramePtr& frame);
  Value display(const Display& node, const FramePtr& frame);
  Value dict_display(const DictDisplay& node, const FramePtr& frame);
  Arguments arguments(const ArgumentList& list, const FramePtr& frame);

  const Dict& variables_;
  Runtime& runtime_;
  std::unordered_map<std::string, Value> exported_;  // what the top level has set: blocks see it
  std::unordered_map<std::string, Value> globals_;
  std::vector<ByteRange> generations_;
  Builder* out_;
  Builder root_;
  int depth_ = 0;
  int line_ = 0;
};

}  // namespace rafter::text::jinja
