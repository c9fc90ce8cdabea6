#include "kernels/ref/reference_kernels.h"

#include "kernels/ref/bodies.h"

namespace rafter::kernels {
namespace {

KernelTable make_table() {
  KernelTable table;
  table.name = "reference";
  table.embed = reference::embed;
  table.rms_norm = reference::rms_norm;
  table.matmul = reference::matmul;
  table.rope_angles = reference::rope_angles;
  table.rope = reference::rope;
  table.kv_append = reference::kv_append;
  table.attention = reference::attention;
  table.row_attention = reference::row_attention;
  table.short_convolution = reference::short_convolution;
  table.l2_norm = reference::l2_norm;
  table.delta_gates = reference::delta_gates;
  table.gated_delta = reference::gated_delta;
  table.gated_rms_norm = reference::gated_rms_norm;
  table.split_gate = reference::split_gate;
  table.sigmoid_gate = reference::sigmoid_gate;
  table.swiglu = reference::swiglu;
  table.geglu = reference::geglu;
  table.scale = reference::scale;
  table.softcap = reference::softcap;
  table.add = reference::add;
  table.select_rows = reference::select_rows;
  table.router = reference::router;
  table.experts = reference::experts;
  table.supports_format = [](const tensor::NumberFormat&) { return true; };
  table.matmul_kernel_name = [](const tensor::NumberFormat&, int64_t) { return "matmul_reference"; };
  table.matmul_scratch = [](const MatmulArgs&, int64_t) { return KernelTable::Scratch{}; };
  table.attention_scratch = [](const AttentionArgs&, int64_t, int64_t) { return KernelTable::Scratch{}; };
  table.experts_scratch = [](const ExpertsArgs&, int64_t) { return KernelTable::Scratch{}; };
  return table;
}

}  // namespace

const KernelTable& reference_kernels() {
  static const KernelTable table = make_table();
  return table;
}

}  // namespace rafter::kernels
