// rafter gc: what can go from the caches; shown first, removed when told to.
#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/progress_bar.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "hub/garbage.h"
#include "store/paths.h"
#include "store/registry.h"

namespace rafter::cli {
namespace {

struct GcFlags {
  bool apply = false, json = false;
  double grace_hours = 1;
};

void print_json(const hub::GarbagePlan& plan, bool applied, int forgotten) {
  nlohmann::ordered_json items = nlohmann::ordered_json::array();
  for (const hub::Garbage& item : plan.items) {
    items.push_back(
        {{"kind", hub::garbage_kind_name(item.kind)}, {"path", item.path}, {"bytes", item.bytes}});
  }
  const nlohmann::ordered_json json = {{"applied", applied},
                                       {"bytes", plan.bytes()},
                                       {"items", items},
                                       {"in_use", plan.skipped},
                                       {"forgotten_models", forgotten}};
  std::cout << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

void print_text(const hub::GarbagePlan& plan, bool applied, int forgotten) {
  std::map<std::string, std::pair<int, int64_t>> sums;
  for (const hub::Garbage& item : plan.items) {
    auto& [count, bytes] = sums[hub::garbage_kind_name(item.kind)];
    ++count;
    bytes += item.bytes;
    if (!applied) {
      std::cout << fmt::format("{:>9}  {:<20} {}\n", item.bytes > 0 ? format_bytes(item.bytes) : "-",
                               hub::garbage_kind_name(item.kind), one_line(item.path));
    }
  }
  for (const auto& [kind, sum] : sums) {
    std::cout << fmt::format("{} {}{}: {}\n", sum.first, kind, sum.first == 1 ? "" : "s",
                             format_bytes(sum.second));
  }
  for (const std::string& name : plan.skipped)
    std::cout << fmt::format("{} is in use: left alone\n", one_line(name));
  if (forgotten > 0)
    std::cout << fmt::format("{} registered model{} gone\n", forgotten, forgotten == 1 ? " is" : "s are");
  if (applied) {
    std::cout << fmt::format("{} freed\n", format_bytes(plan.bytes()));
  } else if (plan.items.empty() && forgotten == 0) {
    std::cout << "nothing to remove\n";
  } else {
    std::cout << fmt::format("{} can be freed: run `rafter gc --apply`\n", format_bytes(plan.bytes()));
  }
}

// Registered models whose files are gone.
int count_missing(const std::vector<store::ModelRecord>& records) {
  int missing = 0;
  for (const store::ModelRecord& record : records) missing += record.missing ? 1 : 0;
  return missing;
}

base::Status run(const GcFlags& flags) {
  RAFTER_ASSIGN(const std::string cache, store::hugging_face_hub_directory());
  RAFTER_ASSIGN(store::ModelRegistry registry, store::ModelRegistry::open_default());
  const std::chrono::seconds grace(static_cast<int64_t>(flags.grace_hours * 3600));
  hub::GarbagePlan plan = hub::plan_garbage(cache, grace);
  if (flags.apply) {
    RAFTER_ASSIGN(plan, hub::remove_garbage(cache, plan, grace));
  }
  RAFTER_ASSIGN(int forgotten, registry.reap_missing());
  RAFTER_ASSIGN(const auto records, registry.list());
  for (const store::ModelRecord& record : records) {
    if (flags.apply && record.missing) RAFTER_TRY(registry.remove(record.path));
  }
  forgotten += count_missing(records);
  flags.json ? print_json(plan, flags.apply, forgotten) : print_text(plan, flags.apply, forgotten);
  return {};
}

Action define(CLI::App& app) {
  auto flags = std::make_shared<GcFlags>();
  app.add_flag("--apply", flags->apply, "remove it (without this, only say what could be removed)");
  app.add_option("--grace", flags->grace_hours,
                 "hours for which anything just written is left alone (default: 1)")
      ->check(CLI::Range(0.0, 1e6));
  app.add_flag("--json", flags->json, "print one JSON object");
  return [flags] { return run(*flags); };
}

}  // namespace

const Verb kGcVerb{
    "gc", "show what can go from the model caches, and remove it",
    "  rafter gc\n"
    "  rafter gc --apply\n"
    "Incomplete downloads, files no revision names, revisions that a newer one replaced, stale locks.\n",
    define};

}  // namespace rafter::cli
