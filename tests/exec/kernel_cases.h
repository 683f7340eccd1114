// The one table of shapes that every kernel of every backend is tried on: odd sizes, one token, lengths that are no
// multiple of a tile, every feature of the model families. What runs through it:
//   tests/exec/host/kernel_cases_test.cpp       host: which kernels run, central differences in double
//   tests/exec/cuda/launched_kernels_test.cpp   CUDA: which kernels are launched (needs no GPU)
//   tests/exec/cuda/templates_test.cpp          CUDA: values against the host's
//   bench/kernel_cases_bench.cpp                how fast each kernel is
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "exec/runtime/binding.h"
#include "shared/data/packing.h"
#include "shared/model/activations.h"
#include "shared/model/kernels.h"
#include "shared/model/model.h"

namespace penstock::exec {

struct KernelCase {
  std::string name;
  ModelConfig config;  // one decoder layer
  BatchShape batch;    // where it is cut, the whole sequence: ops are of its last chunk
  Chunking chunking = {};
  ElementType gradient_type = ElementType::fp32;
  bool differentiated = false;               // small enough for central differences in double
  std::vector<std::int64_t> documents = {};  // of packed rows: their lengths, over and over; the last of a row is cut
};

/// Ids of the vocabulary, and of packed rows labels, of which some are ignored, and document starts.
PackedRows case_rows(const KernelCase& c);

const std::vector<KernelCase>& kernel_cases();
/// How GoogleTest prints one.
void PrintTo(const KernelCase& c, std::ostream* out);

/// A template op of a case.
struct CaseOp {
  LayerKind kind = LayerKind::decoder;
  Pass pass = Pass::forward;
  Keep keep = Keep::input;
  bool writes_output = false;  // of a recompute
  bool accumulates = false;

  std::string name() const;
};

/// Every op that a schedule of the case's model can have: each pass of each kind at each keep level, with and without
/// what is optional.
std::vector<CaseOp> case_ops(const KernelCase& c);

/// An op bound to memory of its own: all zero but for the case's rows and weights of 1.
class BoundCase {
 public:
  BoundCase(const KernelCase& c, const CaseOp& op);

  const TemplateBinding& binding() const { return binding_; }
  /// The kernels that the op executes.
  std::vector<Kernel> kernels() const;

 private:
  const CaseOp op_;
  const Model model_;
  TemplateBinding binding_;
  PackedRows rows_;
  double trained_tokens_ = 0;
  std::vector<std::vector<std::byte>> memory_;
};

/// How often each kernel of a list is executed; by name, so that differences read well.
std::vector<std::string> executions(const std::vector<Kernel>& kernels);

}  // namespace penstock::exec
