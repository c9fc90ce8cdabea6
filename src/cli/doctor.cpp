// rafter doctor: what this machine has, what holds it back, and how to mend it.
#include "lab/doctor.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/terminal.h"
#include "cli/verb.h"
#include "store/paths.h"

namespace rafter::cli {
namespace {

struct DoctorFlags {
  bool quick = false, json = false;
};

void print_json(const lab::DoctorReport& report) {
  using nlohmann::ordered_json;
  ordered_json findings = ordered_json::array();
  for (const lab::Finding& finding : report.findings) {
    findings.push_back({{"subject", finding.subject},
                        {"level", lab::finding_level_name(finding.level)},
                        {"what", finding.what},
                        {"cost", finding.cost},
                        {"mend", finding.mend}});
  }
  const ordered_json json = {{"processor", report.processor},
                             {"tier", report.tier},
                             {"cores", report.cores},
                             {"available_memory_bytes", report.available_memory_bytes},
                             {"raw_read_gbps", report.raw_read_gbps},
                             {"peak_tops", report.peak_tops},
                             {"peak_instruction", report.peak_instruction},
                             {"busy", report.load.busy},
                             {"findings", findings}};
  std::cout << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

void print_text(const lab::DoctorReport& report) {
  std::cout << one_line(report.processor) << "\n";
  for (const lab::Finding& finding : report.findings) {
    const char* mark = finding.level == lab::FindingLevel::warning ? "!"
                       : finding.level == lab::FindingLevel::note  ? "-"
                                                                   : " ";
    std::cout << fmt::format("{} {:<13} {}\n", mark, finding.subject, one_line(finding.what));
    if (!finding.cost.empty()) std::cout << fmt::format("                costs: {}\n", finding.cost);
    if (!finding.mend.empty()) std::cout << fmt::format("                mend:  {}\n", finding.mend);
  }
}

base::Status run(const DoctorFlags& flags) {
  lab::DoctorOptions options;
  options.measure = !flags.quick;
  for (const auto& folder : {store::cache_directory(), store::hugging_face_hub_directory()}) {
    if (folder.ok()) options.folders.push_back(*folder);
  }
  RAFTER_ASSIGN(const lab::DoctorReport report, lab::examine_machine(options));
  flags.json ? print_json(report) : print_text(report);
  return {};
}

Action define(CLI::App& app) {
  auto flags = std::make_shared<DoctorFlags>();
  app.add_flag("--quick", flags->quick, "leave the measurements out");
  app.add_flag("--json", flags->json, "print one JSON object");
  return [flags] { return run(*flags); };
}

}  // namespace

const Verb kDoctorVerb{"doctor", "what this machine has, what holds it back, and how to mend it",
                       "  rafter doctor\n"
                       "  rafter doctor --quick\n"
                       "  rafter doctor --json | jq '.findings[] | select(.level == \"warning\")'\n",
                       define};

}  // namespace rafter::cli
