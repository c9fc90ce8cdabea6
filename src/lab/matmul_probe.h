// The product's own matrix kernels at given shapes: what a decode step's matrices would reach, one after the
// other inside one submission, over enough copies that no cache holds them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/cpu_info.h"
#include "base/result.h"
#include "lab/raw_read.h"
#include "tensor/number_format.h"

namespace rafter::lab {

struct MatmulProbe {
  tensor::NumberFormat format;
  int64_t outputs = 0, inputs = 0;  // N, K
  int32_t rows = 1;                 // M
};

struct MatmulFigure {
  double mib = 0;          // of one matrix
  double gbps = 0;         // weight bytes over time, median
  double raw_percent = 0;  // of the raw read that alternated with it, median of the pairs' ratios
  double tflops = 0;
};

// `raw` is read between the passes; its team size is the number of threads used.
base::Result<MatmulFigure> measure_matmul(const MatmulProbe& probe, base::CpuTier tier, int threads,
                                          RawRead& raw);

// A matrix of about `mib` MiB in `format`, with the inner dimension that models of that size have.
MatmulProbe decode_shape(const tensor::NumberFormat& format, double mib);

}  // namespace rafter::lab
