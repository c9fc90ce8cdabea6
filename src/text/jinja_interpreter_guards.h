// The interpreter's scope guards: recursion depth, captured output, frames that may outlive their call.
#pragma once

#include "text/jinja_interpreter.h"

namespace rafter::text::jinja {

inline constexpr int kCallWeight = 4;  // a macro's call beside the nodes in it

class Interpreter::Depth {
 public:
  explicit Depth(Interpreter& interpreter, int weight = 1) : depth_(interpreter.depth_), weight_(weight) {
    depth_ += weight_;
    if (depth_ > interpreter.runtime_.meter.limits().evaluation_depth) {
      depth_ -= weight_;
      fail(FailureKind::limit, "the template recurses too deeply");
    }
  }
  ~Depth() { depth_ -= weight_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  int& depth_;
  int weight_;
};

// Output goes into a text of its own while it lives.
class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& interpreter)
      : interpreter_(interpreter), outer_(interpreter.out_), own_(interpreter.runtime_.meter) {
    interpreter.out_ = &own_;
  }
  ~Capture() { interpreter_.out_ = outer_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Ends the capture.
  Text take() {
    interpreter_.out_ = outer_;
    return own_.take();
  }

 private:
  Interpreter& interpreter_;
  Builder* outer_;
  Builder own_;
};

// A function's frame for the time of its call. If something still refers to it then (a macro defined in it, a
// lazy iterator), it may be part of a cycle, so its variables are let go when the render ends.
class Interpreter::OpenFrame {
 public:
  OpenFrame(Interpreter& interpreter, const FunctionPlan& plan, FramePtr outer)
      : interpreter_(interpreter),
        frame_(std::make_shared<FunctionFrame>(interpreter.runtime_.meter, plan, std::move(outer))) {}
  ~OpenFrame() {
    if (frame_.use_count() > 1) {
      interpreter_.runtime_.at_end([frame = frame_] { frame->slots.clear(); });
    }
  }
  OpenFrame(const OpenFrame&) = delete;
  OpenFrame& operator=(const OpenFrame&) = delete;

  const FramePtr& frame() const { return frame_; }

 private:
  Interpreter& interpreter_;
  FramePtr frame_;
};

}  // namespace rafter::text::jinja
