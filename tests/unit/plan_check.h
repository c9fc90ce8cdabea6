// Judges a placed plan without running a kernel: every input must still be in its buffer when it is read, and
// two ops that no barrier separates must not touch the same bytes, unless both only read.
#pragma once

#include <map>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "plan/place.h"

namespace rafter::testing {

inline std::optional<std::string> placement_fault(const plan::Plan& plan) {
  struct Region {
    int64_t begin, end;
    bool overlaps(const Region& o) const { return begin < o.end && o.begin < end; }
  };
  auto region = [&](plan::Value v) {
    return Region{plan.offsets[v.id], plan.offsets[v.id] + plan::value_bytes(plan, v)};
  };
  // Replay in order: which value owns each region now.
  std::map<int32_t, Region> held;
  for (const auto& [name, value] : plan.taps)
    held[value.id] = region(value);  // inputs; written taps come again
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    for (plan::Value v : plan.ops[i].inputs) {
      if (!held.contains(v.id))
        return fmt::format("op {} reads value {}, which was overwritten or never written", i, v.id);
    }
    for (plan::Value out : plan.ops[i].outputs) {
      const Region written = region(out);
      if (written.begin < 0 || written.end > plan.arena_bytes)
        return fmt::format("value {} is outside the arena", out.id);
      std::erase_if(held, [&](const auto& entry) { return entry.second.overlaps(written); });
      held[out.id] = written;
    }
  }
  if (plan.logits.valid() && !held.contains(plan.logits.id)) return "the logits were overwritten";
  for (const auto& [name, value] : plan.taps) {
    if (!held.contains(value.id)) return fmt::format("the tap {} was overwritten", name);
  }
  // Ops of one segment run side by side.
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    for (size_t j = i + 1; j < plan.ops.size() && !plan.barrier_before[j]; ++j) {
      for (plan::Value written : plan.ops[i].outputs) {
        for (const auto* values : {&plan.ops[j].inputs, &plan.ops[j].outputs}) {
          for (plan::Value other : *values) {
            if (region(written).overlaps(region(other)))
              return fmt::format("ops {} and {} race on value {}", i, j, other.id);
          }
        }
      }
      for (plan::Value read : plan.ops[i].inputs) {
        for (plan::Value other : plan.ops[j].outputs) {
          if (region(read).overlaps(region(other)))
            return fmt::format("op {} overwrites what op {} reads", j, i);
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace rafter::testing
