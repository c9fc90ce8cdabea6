// rafter roofline bw: what the machine gives.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/roofline.h"
#include "cli/terminal.h"
#include "lab/machine_probe.h"

namespace rafter::cli {
namespace {

struct BandwidthFlags {
  int threads = 0;
  std::vector<double> gib;
  std::vector<double> mib;
  bool json = false;
};

void print_json(const lab::MachineFigures& figures) {
  using nlohmann::ordered_json;
  ordered_json by_size = ordered_json::array(), by_threads = ordered_json::array();
  for (const auto& size : figures.raw_read_by_size)
    by_size.push_back({{"gib", size.gib}, {"gbps", size.gbps}});
  for (const auto& row : figures.raw_read_by_threads) {
    by_threads.push_back({{"threads", row.threads}, {"gbps", row.gbps}});
  }
  ordered_json peaks = ordered_json::array(), matrices = ordered_json::array();
  for (const lab::PeakFigure& peak : figures.peaks) {
    peaks.push_back({{"instruction", peak.instruction}, {"tops", peak.tops}});
  }
  for (const auto& matrix : figures.matrices) {
    matrices.push_back({{"format", matrix.format},
                        {"mib", matrix.figure.mib},
                        {"gbps", matrix.figure.gbps},
                        {"raw_read_pct", matrix.figure.raw_percent}});
  }
  const ordered_json json = {{"processor", figures.processor},
                             {"tier", figures.tier},
                             {"threads", figures.threads},
                             {"raw_read_gbps", figures.raw_read_gbps},
                             {"raw_read_reader", figures.reader},
                             {"raw_read_by_size", by_size},
                             {"raw_read_by_threads", by_threads},
                             {"peaks", peaks},
                             {"qmv", matrices},
                             {"tiny_op_us", figures.tiny_op_us},
                             {"barrier_us", figures.barrier_us},
                             {"launch_us", figures.launch_us},
                             {"readback_us", figures.readback_us},
                             {"load_before", figures.load.load_before},
                             {"others_pct", figures.load.others_percent},
                             {"busy", figures.load.busy},
                             {"checksum", figures.checksum}};
  std::cout << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

void print_text(const lab::MachineFigures& figures) {
  std::cout << fmt::format("{}, {} kernels, {} threads\n\n", one_line(figures.processor), figures.tier,
                           figures.threads);
  std::cout << fmt::format("raw read           {:8.1f} GB/s   ({})\n", figures.raw_read_gbps, figures.reader);
  for (const auto& size : figures.raw_read_by_size) {
    std::cout << fmt::format("  {:5.3g} GiB        {:8.1f} GB/s\n", size.gib, size.gbps);
  }
  for (const auto& row : figures.raw_read_by_threads) {
    std::cout << fmt::format("  {:2} thread{}       {:8.1f} GB/s\n", row.threads,
                             row.threads == 1 ? " " : "s", row.gbps);
  }
  for (const lab::PeakFigure& peak : figures.peaks) {
    std::cout << fmt::format("{:<18} {:8.3f} T/s\n", peak.instruction, peak.tops);
  }
  std::cout << fmt::format(
      "tiny op            {:8.2f} us\nbarrier            {:8.2f} us\nlaunch             {:8.2f} us\n\n",
      figures.tiny_op_us, figures.barrier_us, figures.launch_us);
  std::cout << "matrix times one row     MiB      GB/s   of the raw read\n";
  for (const auto& matrix : figures.matrices) {
    std::cout << fmt::format("  {:<16} {:9.1f} {:9.1f}   {:5.0f} %\n", matrix.format, matrix.figure.mib,
                             matrix.figure.gbps, matrix.figure.raw_percent);
  }
  std::cout << fmt::format("\nchecksum {:x}\n", figures.checksum);
  if (figures.load.busy) {
    std::cout << fmt::format(
        "busy: other programs took {:.0f} % of the cores meanwhile; load {:.1f} before\n",
        figures.load.others_percent, figures.load.load_before);
  }
}

base::Status run(const BandwidthFlags& flags) {
  lab::MachineProbeOptions options;
  options.threads = flags.threads;
  if (!flags.gib.empty()) options.read_gib = flags.gib;
  if (!flags.mib.empty()) options.matrix_mib = flags.mib;
  const bool on_terminal = stderr_is_terminal();
  if (on_terminal) {
    options.progress = [](const std::string& what) {
      std::fprintf(stderr, "\r\033[Kmeasuring: %s", what.c_str());
      std::fflush(stderr);
    };
  }
  const auto figures = lab::measure_machine(options);
  if (on_terminal) std::fputs("\r\033[K", stderr);
  RAFTER_TRY(figures.ok() ? base::Status{} : base::Status{figures.error()});
  flags.json ? print_json(*figures) : print_text(*figures);
  return {};
}

}  // namespace

Action define_roofline_bw(CLI::App& app) {
  auto flags = std::make_shared<BandwidthFlags>();
  app.add_option("--threads", flags->threads, "worker threads (default: every core)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--gib", flags->gib, "sizes of the raw read in GiB (default: 1 2 4)")
      ->check(CLI::Range(0.001, 64.0));
  app.add_option("--mib", flags->mib, "sizes of the matrices in MiB (default: 1.3 … 540)")
      ->check(CLI::Range(0.1, 4096.0));
  app.add_flag("--json", flags->json, "print one JSON object");
  return [flags] { return run(*flags); };
}

}  // namespace rafter::cli
