#include "engine/byte_account.h"

#include <set>

#include "plan/emitter.h"

namespace rafter::engine {
namespace {

using namespace kernels;

// Sums the classes of a plan's ops, each stored matrix once however many ops read it.
class Counter {
 public:
  explicit Counter(const plan::Plan& plan) : plan_(plan) {}

  // The head, and all that runs on wanted rows only, before the rest: a tied embedding is the head.
  void count(ByteAccount& account) {
    for (const plan::Op& op : plan_.ops) {
      const auto* matmul = std::get_if<MatmulArgs>(&op.args);
      if (matmul == nullptr) continue;
      const bool is_head = plan_.info(op.outputs[0]).rows == plan::RowSpace::wanted;
      for (int s = 0; s < matmul->segment_count; ++s) {
        const int64_t bytes = take(matmul->segments[s].weight);
        account.streamed_bytes += bytes;
        if (is_head) account.head_bytes += bytes;
      }
    }
    for (const plan::Op& op : plan_.ops) {
      if (const auto* experts = std::get_if<ExpertsArgs>(&op.args)) count_experts(*experts, account);
      if (const auto* embed = std::get_if<EmbedArgs>(&op.args)) {
        const int64_t bytes = take(embed->table);
        account.row_gathered_bytes += bytes;
        if (bytes > 0) account.row_gathered_row_bytes += cost(*embed, 1).weight_bytes;
      }
    }
  }

 private:
  int64_t take(const tensor::MatrixView& view) { return taken_.insert(view.data).second ? view.bytes() : 0; }

  void count_experts(const ExpertsArgs& args, ByteAccount& account) {
    int64_t all = 0;
    for (int32_t e = 0; e < args.experts; ++e)
      all += take(args.gate[e]) + take(args.up[e]) + take(args.down[e]);
    const int64_t active = all / args.experts * args.chosen;
    account.expert_bytes += all;
    account.expert_bytes_active += active;
    account.streamed_bytes += active;
  }

  const plan::Plan& plan_;
  std::set<const std::byte*> taken_;
};

// A plan learns how its caches store their elements when it is bound; this one never is.
void set_codes(plan::Plan& plan, const std::vector<KvCodes>& codes) {
  for (plan::Op& op : plan.ops) {
    if (auto* attention = std::get_if<AttentionArgs>(&op.args))
      attention->cache.codes = codes[static_cast<size_t>(op.cache_layer)];
    if (auto* append = std::get_if<KvAppendArgs>(&op.args))
      append->cache.codes = codes[static_cast<size_t>(op.cache_layer)];
  }
}

}  // namespace

int64_t ByteAccount::kv_bytes(int64_t context) const {
  int64_t bytes = 0;
  for (const plan::Op& op : plan.ops) {
    if (std::holds_alternative<KvAppendArgs>(op.args)) continue;  // one position written, none read
    bytes += plan::op_cost(plan, op, 1, 1, context).cache_bytes;
  }
  return bytes;
}

ByteAccount account_bytes(const format::Checkpoint& checkpoint, const model::Model& model,
                          const std::vector<KvCodes>& codes) {
  ByteAccount account;
  plan::Emitter emitter(plan::EmitOptions{});
  model.emit(emitter);
  account.plan = std::move(emitter).take();
  account.cache_format = codes.empty() ? "bf16" : describe_kv_codes(codes, /*precise=*/false);
  if (!codes.empty()) set_codes(account.plan, codes);
  Counter(account.plan).count(account);
  for (const auto& [name, tensor] : checkpoint.tensors()) account.total_bytes += tensor.bytes;
  account.unused_bytes = model.info().unused_bytes;
  account.vector_bytes = account.total_bytes - account.unused_bytes - account.row_gathered_bytes -
                         account.expert_bytes - (account.streamed_bytes - account.expert_bytes_active);
  account.streamed_bytes += account.vector_bytes;
  return account;
}

}  // namespace rafter::engine
