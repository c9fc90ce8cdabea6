// What a decode step of one row must read, from headers alone: the byte classes of `rafter roofline bytes`.
//
// The model's own plan is counted, so every family and every mixed layout is counted as it runs:
//   streamed       every matrix of every layer, the head, and the experts that one row chooses; norms and
//                  biases as they are stored
//   row-gathered   tables of which a step reads one row (an untied embedding, per-layer embeddings)
//   unused         tensors that the model leaves alone (a vision tower, a copy of a tied head)
//   KV             keys and values of the positions seen, each layer with its own shape and window; state
//                  that recurrent layers read and write
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/kv_quantization.h"
#include "format/checkpoint.h"
#include "model/model.h"
#include "plan/plan.h"

namespace rafter::engine {

struct ByteAccount {
  int64_t streamed_bytes = 0;          // head, active experts and vectors included
  int64_t head_bytes = 0;              // of streamed
  int64_t expert_bytes_active = 0;     // of streamed: K of E experts
  int64_t vector_bytes = 0;            // of streamed: norms, biases
  int64_t expert_bytes = 0;            // all experts
  int64_t row_gathered_bytes = 0;      // whole tables
  int64_t row_gathered_row_bytes = 0;  // what a step reads of them
  int64_t unused_bytes = 0;
  int64_t total_bytes = 0;  // of all tensors

  // Read per step at `context` visible positions: with codes, their scales and biases too.
  int64_t kv_bytes(int64_t context) const;
  int64_t per_token_bytes(int64_t context) const {
    return streamed_bytes + row_gathered_row_bytes + kv_bytes(context);
  }

  std::string cache_format;  // "bf16", "8 bit"

  plan::Plan plan;  // one row, as emitted: what was counted; points into the model
};

// The model outlives the account. `codes`: of each cache layer (engine/kv_quantization.h); empty: 16-bit
// values.
ByteAccount account_bytes(const format::Checkpoint& checkpoint, const model::Model& model,
                          const std::vector<kernels::KvCodes>& codes = {});

}  // namespace rafter::engine
