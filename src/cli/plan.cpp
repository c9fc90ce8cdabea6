// rafter plan: what one step of a model does.
#include "plan/plan.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/engine_flags.h"
#include "cli/find_model.h"
#include "cli/verb.h"
#include "plan/print.h"

namespace rafter::cli {
namespace {

struct PlanFlags {
  std::string model;
  int rows = 1;
  int64_t positions = 0;
  bool unfused = false, json = false, every_layer = false;
  EngineFlags engine;
};

void print_json(const std::string& name, const PlanFlags& flags, const plan::Plan& plan) {
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  for (const plan::StepDescription& step : plan::describe(plan, flags.rows, 1, flags.positions)) {
    steps.push_back({{"index", step.index},
                     {"layer", step.layer},
                     {"role", step.role},
                     {"op", step.op},
                     {"kernel", step.kernel},
                     {"shape", step.shape},
                     {"formats", step.formats},
                     {"weight_bytes", step.cost.weight_bytes},
                     {"cache_bytes", step.cost.cache_bytes},
                     {"activation_bytes", step.cost.activation_bytes},
                     {"operations", step.cost.operations},
                     {"barrier", step.barrier}});
  }
  const nlohmann::ordered_json json = {{"model", name},
                                       {"rows", flags.rows},
                                       {"context", flags.positions},
                                       {"capacity", plan.capacity},
                                       {"arena_bytes", plan.arena_bytes},
                                       {"steps", steps}};
  std::cout << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

base::Status run(PlanFlags flags) {
  RAFTER_ASSIGN(const NamedModel named, find_model(flags.model));
  flags.engine.prefill_chunk = flags.rows;  // a bucket that holds them
  RAFTER_ASSIGN(const auto engine, open_engine(named.path, flags.engine, !flags.unfused));
  RAFTER_ASSIGN(const plan::Plan* plan, engine->plan_for(flags.rows));
  if (flags.json) {
    print_json(named.name, flags, *plan);
  } else {
    std::cout << fmt::format("{}: {}, {} parameters, {}\n", named.name, engine->model().info().architecture,
                             engine->model().info().parameters, engine->executor_name());
    plan::print_plan(*plan, flags.rows, flags.positions, flags.every_layer, std::cout);
  }
  return {};
}

Action define(CLI::App& app) {
  auto flags = std::make_shared<PlanFlags>();
  constexpr int kMostRows = 65536;
  constexpr int64_t kMostPositions = 16 << 20;
  app.add_option("model", flags->model, "a path, or part of a registered model's name")->required();
  app.add_option("--rows", flags->rows, "rows of the step: tokens computed together (default 1)")
      ->check(CLI::Range(1, kMostRows));
  app.add_option("--positions", flags->positions,
                 "positions each row attends to, for the cache's bytes (default 0)")
      ->check(CLI::Range(int64_t{0}, kMostPositions));
  app.add_flag("--unfused", flags->unfused, "the plan as the model emits it");
  app.add_flag("--all-layers", flags->every_layer,
               "print every layer, not the first of those that are alike");
  app.add_flag("--json", flags->json, "print one JSON object");
  app.add_flag("--precise", flags->engine.precise, "the plan of --precise");
  add_kv_quant_flag(app, flags->engine);
  add_device_flag(app, flags->engine);
  app.add_option("--executor", flags->engine.executor, "cpu or reference")
      ->check(CLI::IsMember({"cpu", "reference"}));
  return [flags] { return run(*flags); };
}

}  // namespace

const Verb kPlanVerb{"plan", "print the steps of one token: shapes, formats, bytes, kernels",
                     "  rafter plan smollm2\n"
                     "  rafter plan smollm2 --unfused --rows 16\n"
                     "  rafter plan smollm2 --kv-quant 8 --positions 4096\n"
                     "  rafter plan smollm2 --json | jq '[.steps[].weight_bytes] | add'\n",
                     define};

}  // namespace rafter::cli
