// How far the default mode is from the fp32 truth beside the bf16 witness, by family and kind of format: a
// table to print, and a record (scripts/family-table, docs/families.md).
#pragma once

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include <fmt/format.h>

#include "tests/models/oracle_data.h"

namespace rafter::testing {

class FamilyTable {
 public:
  void add(const OracleCase& oracle_case, const LogitError& ours, const LogitError& witness) {
    Cell& cell = cells_[oracle_case.family][kind_of(oracle_case.format)];
    ++cell.checkpoints;
    cell.rows += ours.rows;
    cell.kl += ours.kl_sum;
    cell.witness_rows += witness.rows;
    cell.witness_kl += witness.kl_sum;
  }

  // Mean KL in millionths of a nat, ours / the witness's.
  void print() const {
    std::printf("%-14s", "mean KL, 1e-6");
    for (const char* kind : kKinds) std::printf(" %21s", kind);
    std::printf("\n");
    for (const auto& [family, kinds] : cells_) {
      std::printf("%-14s", family.c_str());
      for (const char* kind : kKinds) std::printf(" %21s", text(kinds, kind).c_str());
      std::printf("\n");
    }
  }

  // Into the file that RAFTER_FAMILY_TABLE names, if it does.
  void record(const std::string& executor) const {
    const char* path = std::getenv("RAFTER_FAMILY_TABLE");
    if (path == nullptr) return;
    nlohmann::ordered_json families;
    for (const auto& [family, kinds] : cells_) {
      for (const char* kind : kKinds) {
        const auto found = kinds.find(kind);
        if (found == kinds.end()) continue;
        families[family][kind] = {{"checkpoints", found->second.checkpoints},
                                  {"rows", found->second.rows},
                                  {"mean_kl", found->second.mean()},
                                  {"witness_mean_kl", found->second.witness_mean()}};
      }
    }
    std::ofstream(path) << nlohmann::ordered_json{{"executor", executor}, {"families", families}}.dump(1)
                        << "\n";
  }

 private:
  static constexpr const char* kKinds[] = {"plain", "MLX 4-bit", "MLX 8-bit", "MLX mixed, other", "GGUF"};

  struct Cell {
    int64_t checkpoints = 0, rows = 0, witness_rows = 0;
    double kl = 0, witness_kl = 0;

    double mean() const { return kl / static_cast<double>(rows); }
    double witness_mean() const { return witness_kl / static_cast<double>(witness_rows); }
  };
  using Kinds = std::map<std::string, Cell>;

  static std::string kind_of(const std::string& format) {
    if (format.starts_with("gguf")) return "GGUF";
    if (format == "mlx4") return "MLX 4-bit";
    if (format == "mlx8") return "MLX 8-bit";
    return format.starts_with("mlx") ? "MLX mixed, other" : "plain";
  }
  static std::string text(const Kinds& kinds, const std::string& kind) {
    const auto found = kinds.find(kind);
    if (found == kinds.end()) return "-";
    return fmt::format("{:.3g} / {:.3g}", found->second.mean() * 1e6, found->second.witness_mean() * 1e6);
  }

  std::map<std::string, Kinds> cells_;
};

}  // namespace rafter::testing
