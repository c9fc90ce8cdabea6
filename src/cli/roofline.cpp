// rafter roofline: what a token must cost on this machine, and what it does cost.
#include "cli/roofline.h"

#include <CLI/CLI.hpp>

namespace rafter::cli {
namespace {

struct Part {
  const char* name;
  const char* summary;
  Action (*define)(CLI::App& app);
};

constexpr Part kParts[] = {
    {"bw", "what the machine gives: memory, arithmetic, barriers, matrix kernels", define_roofline_bw},
    {"step", "one decode step of a model against both roofs, op by op", define_roofline_step},
    {"bytes", "what a token must read, from headers alone", define_roofline_bytes},
    {"table", "a decode step of several models side by side, recorded", define_roofline_table},
};

Action define(CLI::App& app) {
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, Action>> parts;
  for (const Part& part : kParts) {
    CLI::App* sub = app.add_subcommand(part.name, part.summary);
    parts.emplace_back(sub, part.define(*sub));
  }
  return [parts] {
    for (const auto& [sub, action] : parts) {
      if (sub->parsed()) return action();
    }
    return base::Status{};
  };
}

}  // namespace

const Verb kRooflineVerb{"roofline", "measure the machine's roofs, and a model's step against them",
                         "  rafter roofline bw\n"
                         "  rafter roofline step smollm2 --ctx 128\n"
                         "  rafter roofline step smollm2 --ctx 1024 --batch 4 --trace step.json\n"
                         "  rafter roofline step smollm2 --json | jq .roofline_pct\n"
                         "  rafter roofline bytes smollm2\n"
                         "  rafter roofline bytes --shape llama3-8b --format mlx4 --ctx 8192 --json\n"
                         "  rafter roofline table smollm2 --ctx 128,1024\n",
                         define};

}  // namespace rafter::cli
