#include "cli/evaluation_run.h"

#include <ctime>

#include "base/version.h"
#include "lab/fit.h"

namespace rafter::cli {

store::EvaluationRun begin_run(const std::string& kind, const NamedModel& model, int threads,
                               const lab::MachineLoad::Report& load) {
  store::EvaluationRun run;
  run.started_at = std::time(nullptr);
  run.kind = kind;
  run.model = model.name;
  run.model_path = model.path;
  run.version = base::version();
  run.commit = base::git_commit();
  run.machine = lab::machine_name(threads);
  run.threads = threads;
  run.busy = load.busy;
  run.others_pct = load.others_percent;
  run.load_before = load.load_before;
  return run;
}

}  // namespace rafter::cli
